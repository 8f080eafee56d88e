"""Connections that sent more than their share, served in turn. Knows neither socket nor clock.

A turn of the loop serves a few of them and then lets others speak, so that a request on a quiet
connection waits for one turn and not for everybody who floods.
"""

from collections import deque
from collections.abc import Callable

Work = Callable[[], None]


class Backlog:
    def __init__(
        self, turn_max_s: float, clock: Callable[[], float], schedule: Callable[[Work], object]
    ) -> None:
        self._turn_max_s = turn_max_s
        self._clock = clock
        self._schedule = schedule
        self._waiting: deque[Work] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, work: Work) -> None:
        """Do this when its turn comes; once, unless it is added again."""
        self._waiting.append(work)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._serve)

    def _serve(self) -> None:
        deadline = self._clock() + self._turn_max_s
        # What is added meanwhile has had its share of this turn already.
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()
            if self._clock() > deadline:
                break
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            self._schedule(self._serve)
