"""A store directory as it lies on disk, read without locking, creating or changing anything."""
