"""A message as bytes, the same on disk and in a pull reply; no I/O."""
