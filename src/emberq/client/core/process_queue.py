"""Messages of one queue that were pulled and are not consumed yet.

Two ways out: concurrently, where any message may finish first and the commit stays behind the
slowest; and orderly, where a batch is taken, then committed or put back.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Generic, Protocol, TypeVar


class Cached(Protocol):
    """What a message must tell about itself."""

    @property
    def queue_offset(self) -> int: ...

    @property
    def size(self) -> int:
        """Of its body, in bytes."""


M = TypeVar("M", bound=Cached)

NOTHING_TO_COMMIT = -1


class ProcessQueue(Generic[M]):
    """Offsets are queue offsets. Messages arrive in ascending order, as pulls bring them."""

    def __init__(self) -> None:
        # Dictionaries keep the order of arrival, which is the order of offsets: the first key is
        # the smallest without a sorted structure.
        self._waiting: dict[int, M] = {}
        self._taken: dict[int, M] = {}
        self._size_bytes = 0
        self._offset_max = -1
        self.is_dropped = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._taken)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def span(self) -> int:
        """Distance between the oldest and the newest message that is here."""
        first = self.first
        return 0 if first is None else self._offset_max - first.queue_offset

    @property
    def first(self) -> M | None:
        """The oldest message that is not consumed."""
        for messages in (self._taken, self._waiting):
            for message in messages.values():
                return message
        return None

    @property
    def offset_max(self) -> int:
        """The newest offset that was ever here; -1: none."""
        return self._offset_max

    def add(self, messages: Iterable[M]) -> list[M]:
        """Take pulled messages; returns those that are new."""
        fresh: list[M] = []
        for message in messages:
            offset = message.queue_offset
            if offset <= self._offset_max:
                continue  # a pull that was repeated
            self._waiting[offset] = message
            self._size_bytes += message.size
            self._offset_max = offset
            fresh.append(message)
        return fresh

    def remove(self, messages: Iterable[M]) -> int:
        """Messages are consumed, in any order; returns the offset to commit."""
        if not self._waiting:
            return NOTHING_TO_COMMIT
        for message in messages:
            if self._waiting.pop(message.queue_offset, None) is not None:
                self._size_bytes -= message.size
        for offset in self._waiting:
            return offset
        return self._offset_max + 1

    def take(self, count: int) -> list[M]:
        """The oldest messages, to be consumed in order."""
        offsets = list(islice(self._waiting, count))
        batch = [self._waiting.pop(offset) for offset in offsets]
        self._taken.update(zip(offsets, batch, strict=True))
        return batch

    def commit(self) -> int:
        """What was taken is consumed; returns the offset to commit."""
        if not self._taken:
            return NOTHING_TO_COMMIT
        last = next(reversed(self._taken))
        self._size_bytes -= sum(message.size for message in self._taken.values())
        self._taken.clear()
        return last + 1

    def put_back(self, messages: Iterable[M] | None = None) -> None:
        """What was taken, or a part of it, will be taken again, in its old place."""
        offsets = (
            list(self._taken)
            if messages is None
            else [m.queue_offset for m in messages if m.queue_offset in self._taken]
        )
        returned = {offset: self._taken.pop(offset) for offset in offsets}
        self._waiting = dict(sorted({**returned, **self._waiting}.items()))

    def clear(self) -> None:
        """Forget everything that is cached; offsets seen stay seen."""
        self._waiting.clear()
        self._taken.clear()
        self._size_bytes = 0
