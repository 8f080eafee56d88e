"""Log lines that many messages or requests could cause, written once in a while."""

import time
from collections.abc import Callable


class Seldom:
    """Lets one event through per interval and counts the others."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._next = float("-inf")
        self._held_back = 0

    def held_back(self) -> int | None:
        """How many were held back since the last one; None: hold back this one too."""
        now = self._clock()
        if now < self._next:
            self._held_back += 1
            return None
        self._next = now + self._interval_s
        held_back, self._held_back = self._held_back, 0
        return held_back
