"""Whether the store takes messages now, and what it answers when it does not."""

from enum import Enum, auto
from threading import Lock

from emberq.store.results import PutResult, PutStatus


class Obstacle(Enum):
    """What keeps the store from taking messages until it goes away again."""

    DISK_FULL = auto()  # above diskSpaceWarningLevelRatio
    NO_ROOM = auto()  # queues or index could not be written


class Admission:
    """Asked before every put, so what it depends on are plain attributes; any thread may change
    them by a method."""

    __slots__ = ("_lock", "_obstacles", "failure", "is_index_busy", "refusal")

    def __init__(self) -> None:
        self._lock = Lock()  # guards the three reasons
        self._obstacles: dict[Obstacle, str] = {}
        self.failure = "the store is not open"  # why nothing is taken or made durable any more
        self.refusal = self.failure  # why puts are refused; empty when they are not
        self.is_index_busy = False  # the flusher cannot keep up with new keys

    def refused(self) -> PutResult | None:
        """The answer to a put that is not taken."""
        if self.refusal:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self.refusal)
        if self.is_index_busy:
            return PutResult(PutStatus.OS_PAGE_CACHE_BUSY, reason="the index waits for the disk")
        return None

    def open(self) -> None:
        with self._lock:
            self.failure = ""
            self._settle()

    def fail(self, reason: str) -> None:
        """Take nothing more until the store is opened again; the first reason counts."""
        with self._lock:
            self.failure = self.failure or reason
            self._settle()

    def hinder(self, obstacle: Obstacle, reason: str) -> bool:
        """Take nothing until `clear`; returns whether that is news."""
        with self._lock:
            is_new = obstacle not in self._obstacles
            self._obstacles[obstacle] = reason
            self._settle()
            return is_new

    def clear(self, obstacle: Obstacle) -> bool:
        """The obstacle is gone; returns whether there was one."""
        with self._lock:
            was_there = self._obstacles.pop(obstacle, None) is not None
            self._settle()
            return was_there

    def _settle(self) -> None:
        self.refusal = self.failure or next(iter(self._obstacles.values()), "")
