"""Waiting for a condition with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.05


def eventually(attempt: Callable[[], T], wanted: Callable[[T], bool], timeout_s: float) -> T:
    """The first result of `attempt` that is `wanted`; fails with the last one seen."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = attempt()
        if wanted(result):
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:.0f} s, last seen: {result}")
        time.sleep(POLL_S)  # between two looks at another process there is no event to wait for
