"""Conversations of the broker, one file each."""
