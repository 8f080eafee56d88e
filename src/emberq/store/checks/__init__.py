"""Comparing what the parts of a store say: log with queues, log with index."""
