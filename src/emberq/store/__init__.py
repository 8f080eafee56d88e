"""The log engine: commit log, consume queues and key index; no network."""
