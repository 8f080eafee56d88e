"""The broker: what it knows of topics, groups and offsets, and how it serves them."""
