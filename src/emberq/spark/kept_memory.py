"""Memory of one batch is used again for the next.

The C library of most Linux systems gives large blocks back to the system when they are free, so
that each batch of rows has its pages handed out, and filled with zeros, anew: a tenth of what a
task needs for rows of 1 KB.
"""

import ctypes
import functools

# As glibc calls them in malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# The largest blocks that it takes from its own heaps.
BLOCK_MAX_BYTES = 32 * 1024 * 1024
# So much a process keeps that nobody uses: a few batches with all that they are made of.
KEPT_MAX_BYTES = 128 * 1024 * 1024


@functools.cache
def keep_memory() -> None:
    """Once per process. Other C libraries have ways of their own, and are left alone."""
    try:
        tune = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    tune(_MMAP_THRESHOLD, BLOCK_MAX_BYTES)
    tune(_TRIM_THRESHOLD, KEPT_MAX_BYTES)
