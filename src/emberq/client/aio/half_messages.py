"""The producer's way to send half messages: stored, out of sight, until somebody ends them."""

from collections.abc import Sequence
from datetime import timedelta

from emberq.client.aio.request_calls import Prepare, Watched
from emberq.client.aio.sending import Sending
from emberq.client.aio.transactions import half_properties
from emberq.client.aio.watched_sends import Send
from emberq.client.core.message import Message, Selector, SendResult
from emberq.client.core.outgoing import Outgoing
from emberq.model.queue import MessageQueue
from emberq.record.system_flag import TransactionType, with_transaction_type


class HalfMessages:
    """Of one producer; a HalfSender."""

    def __init__(
        self, sending: Sending, wire_group: str, *, prepare: Prepare, watched: Watched
    ) -> None:
        self._sending = sending
        self._properties = half_properties(wire_group)
        self._prepare = prepare
        self._watched = watched

    async def watched(self, messages: Sequence[Message], send: Send) -> Sequence[SendResult]:
        return await self._watched(messages, send)

    def half(self, message: Message) -> Outgoing:
        """A message that stays out of sight. Raises MessageRefused, ClientClosed."""
        ready = self._prepare(message, self._properties)
        ready.system_flag = with_transaction_type(ready.system_flag, TransactionType.PREPARED)
        return ready

    async def send_half(
        self,
        ready: Outgoing,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        timeout: float | timedelta | None,
    ) -> SendResult:
        # Brokers ask only clients that they know by a heartbeat how a transaction ended.
        await self._sending.greet(ready.topic)
        deadline = self._sending.deadline(timeout)
        async with self._sending.place(deadline):
            return await self._sending.send(ready, message, queue, selector, deadline)
