"""Pulls that wait for messages: by queue, by deadline, by connection. No I/O, no clock.

Nothing here is per pull but one object: no task and no timer. Deadlines lie in slots of a tenth of
a second, and a heap has one number per slot; a pull that is answered leaves its slot.
"""

from collections.abc import Hashable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct

# Pulls that wait at the same time; above it they are answered as if waiting were not asked for.
HELD_MAX = 200_000
HELD_PER_CONNECTION_MAX = 20_000
# Deadlines are kept to this accuracy, always late and never early.
SLOT_MS = 100
# No pull is held longer, whatever it asks for: so there are never more than 36,000 slots.
HOLD_MAX_MS = 3_600_000

QueueKey = tuple[str, int]  # topic and queue id


class HeldPull(Struct, eq=False):
    """One pull that found nothing yet."""

    key: QueueKey
    connection: Hashable
    request: Any
    # Where the pull wants to read, and how far it is known that nothing there is for it.
    offset: int
    scanned_offset: int
    deadline_ms: int
    filter: Any = None
    is_held: bool = False


class HeldPulls:
    def __init__(
        self, held_max: int = HELD_MAX, per_connection_max: int = HELD_PER_CONNECTION_MAX
    ) -> None:
        self._held_max = held_max
        self._per_connection_max = per_connection_max
        # Insertion order is kept: who came first is served first.
        self._by_queue: dict[QueueKey, dict[HeldPull, None]] = {}
        self._by_connection: dict[Hashable, set[HeldPull]] = {}
        self._slots: dict[int, set[HeldPull]] = {}
        self._slot_order: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[HeldPull]:
        for pulls in list(self._by_queue.values()):
            yield from list(pulls)

    def hold(self, pull: HeldPull) -> bool:
        """Keep a pull; False: there are too many already."""
        of_connection = self._by_connection.get(pull.connection)
        if self._count >= self._held_max or (
            of_connection is not None and len(of_connection) >= self._per_connection_max
        ):
            return False
        if of_connection is None:
            of_connection = self._by_connection[pull.connection] = set()
        of_connection.add(pull)
        of_queue = self._by_queue.get(pull.key)
        if of_queue is None:
            of_queue = self._by_queue[pull.key] = {}
        of_queue[pull] = None
        slot = pull.deadline_ms // SLOT_MS
        in_slot = self._slots.get(slot)
        if in_slot is None:
            in_slot = self._slots[slot] = set()
            heappush(self._slot_order, slot)
        in_slot.add(pull)
        self._count += 1
        pull.is_held = True
        return True

    def remove(self, pull: HeldPull) -> bool:
        """Let go of a pull that is answered now; False: it was not held any more."""
        if not pull.is_held:
            return False
        pull.is_held = False
        of_queue = self._by_queue[pull.key]
        del of_queue[pull]
        if not of_queue:
            del self._by_queue[pull.key]
        of_connection = self._by_connection[pull.connection]
        of_connection.discard(pull)
        if not of_connection:
            del self._by_connection[pull.connection]
        in_slot = self._slots.get(pull.deadline_ms // SLOT_MS)
        if in_slot is not None:  # None: it is due
            in_slot.discard(pull)
        self._count -= 1
        return True

    def waiting_for(self, key: QueueKey, end_offset: int) -> Sequence[HeldPull]:
        """Pulls of a queue that may find something now that it ends there."""
        of_queue = self._by_queue.get(key)
        if of_queue is None:
            return ()
        return [pull for pull in of_queue if pull.scanned_offset < end_offset]

    def behind(self, key: QueueKey, end_offset: int) -> list[HeldPull]:
        """Pulls of a queue that has grown since they came, also if nothing was for them."""
        return [pull for pull in self._by_queue.get(key, ()) if pull.offset < end_offset]

    def of_queue(self, key: QueueKey) -> list[HeldPull]:
        return list(self._by_queue.get(key, ()))

    def queues(self) -> list[QueueKey]:
        return list(self._by_queue)

    def due(self, now_ms: int) -> list[HeldPull]:
        """Pulls whose time is over, each told once; they stay until they are removed."""
        due: list[HeldPull] = []
        while self._slot_order and (self._slot_order[0] + 1) * SLOT_MS <= now_ms:
            due += self._slots.pop(heappop(self._slot_order))
        return due

    def drop(self, connection: Hashable) -> None:
        """Forget the pulls of a connection that is gone."""
        for pull in list(self._by_connection.get(connection, ())):
            self.remove(pull)
