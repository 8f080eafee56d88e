"""How much of the log this machine's memory is expected to hold."""

import os

# What is assumed of a machine that does not tell.
_UNKNOWN_MEMORY_BYTES = 8 * 1024 * 1024 * 1024


def physical_memory_bytes() -> int:
    """Memory of the machine, of which containers may give us less."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows, or a system without the name
        return _UNKNOWN_MEMORY_BYTES
