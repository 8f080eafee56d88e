"""Messages that wait for a time: the wheel of slots, the log of what is in them, their files."""
