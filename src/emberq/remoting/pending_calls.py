"""Calls that wait for their answer, by opaque; knows neither clock nor socket."""

from itertools import count
from typing import Generic, TypeVar

from emberq.errors import TooManyPendingCalls

W = TypeVar("W")

_OPAQUE_MASK = 0x7FFFFFFF
_opaques = count()  # one sequence per process, as peers see it from official clients


def next_opaque() -> int:
    return next(_opaques) & _OPAQUE_MASK


class PendingCalls(Generic[W]):
    """Waiters keyed by opaque, each with the moment at which it gives up."""

    __slots__ = ("_limit", "_waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[int, tuple[float, W]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, opaque: int) -> bool:
        return opaque in self._waiting

    def add(self, waiter: W, deadline: float) -> int:
        """Register a waiter; returns the opaque its request must carry.

        Raises:
            TooManyPendingCalls: nothing was registered.
        """
        if len(self._waiting) >= self._limit:
            raise TooManyPendingCalls(f"{self._limit} calls are waiting for answers already")
        opaque = next(_opaques) & _OPAQUE_MASK
        while opaque in self._waiting:  # only after the sequence wrapped around
            opaque = next_opaque()
        self._waiting[opaque] = (deadline, waiter)
        return opaque

    def take(self, opaque: int) -> W | None:
        """Remove and return the waiter of an answer; None if it gave up or never was."""
        entry = self._waiting.pop(opaque, None)
        return None if entry is None else entry[1]

    def take_expired(self, now: float) -> list[W]:
        """Remove and return all waiters whose deadline has come."""
        expired = [opaque for opaque, (deadline, _) in self._waiting.items() if deadline <= now]
        return [self._waiting.pop(opaque)[1] for opaque in expired]

    def take_all(self) -> list[W]:
        waiters = [waiter for _, waiter in self._waiting.values()]
        self._waiting.clear()
        return waiters

    def next_deadline(self) -> float | None:
        return min((deadline for deadline, _ in self._waiting.values()), default=None)
