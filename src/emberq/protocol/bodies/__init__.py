"""Typed bodies of requests and answers, one module per conversation."""
