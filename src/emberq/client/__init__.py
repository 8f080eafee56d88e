"""The client: producers, consumers and what they share."""
