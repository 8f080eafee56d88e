"""Nouns of the system as frozen values; no bytes, no I/O."""
