"""Which queue the next message goes to."""

import random
from collections.abc import Callable, Sequence

from emberq.client.core.broker_faults import BrokerFaults
from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.record.string_hash import java_string_hash

_INT32 = 0x1_0000_0000


class RoundRobin:
    """Walks the queues of one topic; a broker that has just failed is passed over."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        # Producers that start together must not all begin at queue 0.
        self._next = random.randrange(1 << 30)

    def choose(
        self, queues: Sequence[MessageQueue], failed_broker: str | None = None
    ) -> MessageQueue:
        count = len(queues)
        if failed_broker is not None:
            for _ in range(count):
                queue = self._step(queues, count)
                if queue.broker_name != failed_broker:
                    return queue
        number = self._next
        self._next = number + 1
        return queues[number % count]

    def choose_healthy(
        self,
        queues: Sequence[MessageQueue],
        faults: BrokerFaults,
        now_ms: float,
        failed_broker: str | None = None,
    ) -> MessageQueue:
        """The next queue whose broker is fast enough; else one that can be reached; else any."""
        count = len(queues)
        conditions: tuple[Callable[[str], bool], ...] = (
            lambda broker: faults.is_available(broker, now_ms) and broker != failed_broker,
            faults.is_reachable,
        )
        for is_good in conditions:
            for _ in range(count):
                queue = self._step(queues, count)
                if is_good(queue.broker_name):
                    return queue
        return self._step(queues, count)

    def _step(self, queues: Sequence[MessageQueue], count: int) -> MessageQueue:
        number = self._next
        self._next = number + 1
        return queues[number % count]


def queue_by_key(queues: Sequence[MessageQueue], key: object) -> MessageQueue:
    """The queue of an ordering key, the one that official producers choose for the same key.

    Text is hashed as Java hashes it, whole numbers as their Java boxes.

    Raises:
        ConfigError: a key that has no hash in common with other languages.
    """
    # Java's remainder has the sign of the hash, and its absolute value is taken afterwards.
    return queues[abs(_java_hash(key)) % len(queues)]


def _java_hash(key: object) -> int:
    if isinstance(key, str):
        return java_string_hash(key)
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int):
        if -(1 << 31) <= key < 1 << 31:
            return key
        if -(1 << 63) <= key < 1 << 63:
            return ((key ^ (key >> 32)) + (1 << 31)) % _INT32 - (1 << 31)
    raise ConfigError(f"an ordering key is text or a whole number, not {type(key).__name__}")
