"""The two clocks of a broker, in milliseconds."""

import time


def now_ms() -> int:
    """The time of day, as messages carry it."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Only differences count; a step of the wall clock must not make all clients look silent."""
    return time.monotonic_ns() // 1_000_000
