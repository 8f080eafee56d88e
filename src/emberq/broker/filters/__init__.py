"""Which messages of a topic a group wants: tag expressions, SQL92, and what is kept of them."""
