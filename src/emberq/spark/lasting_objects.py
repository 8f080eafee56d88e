"""What a process of Spark keeps for good is not looked at by its garbage collector again.

Spark's workers collect all garbage after each task. That walks over every object of the process,
nearly all of them modules that stay: 30 to 70 ms of CPU, more than a small task needs for its rows.
"""

import functools
import gc


@functools.cache
def keep_what_lasts() -> None:
    """Once per process, when its first work is done and all that it needs is imported. Objects
    still end as ever when nobody holds them; only rings among those of now stay."""
    gc.collect()
    gc.freeze()
