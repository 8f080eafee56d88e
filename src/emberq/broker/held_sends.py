"""Sends under SYNC_FLUSH: stored already, answered when the disk has them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from emberq.protocol.command import ONEWAY_BIT, Command
from emberq.remoting.registry import Answer
from emberq.store.results import PutStatus

if TYPE_CHECKING:
    from emberq.remoting.connection import Connection

# What official brokers let wait in front of their store (sendThreadPoolQueueCapacity).
HELD_SENDS_MAX = 10_000

Frame = Callable[[PutStatus], Answer]


class HeldSends:
    """Keeps no list of its own: the store calls back in the order of the log."""

    def __init__(
        self,
        when_durable: Callable[[int, Callable[[PutStatus], None]], None],
        held_max: int = HELD_SENDS_MAX,
        *,
        count_wait_ms: Callable[[str, str, int], None] = lambda topic, queue_id, time_ms: None,
        steady_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._when_durable = when_durable
        self._count_wait_ms = count_wait_ms
        self._steady_ms = steady_ms
        self._held_max = held_max
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._held_max

    def hold(
        self, command: Command, connection: "Connection", end_offset: int, frame: Frame
    ) -> None:
        """Send `frame(status)` once the log is durable up to `end_offset`, or will not be."""
        command.body = b""  # it is in the log; an answer needs the rest
        self.count += 1
        connection.requests_in_flight += 1
        held_at_ms = self._steady_ms()
        fields = command.fields or {}
        topic, queue_id = fields.get("b", ""), fields.get("e", "")

        def settle(status: PutStatus) -> None:
            self.count -= 1
            self._count_wait_ms(topic, queue_id, self._steady_ms() - held_at_ms)
            connection.requests_in_flight -= 1
            if not command.flag & ONEWAY_BIT:
                response = frame(status)
                assert response is not None
                connection.send_answer(command, response)

        self._when_durable(end_offset, settle)
