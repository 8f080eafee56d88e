"""Sends trace records beside the traffic: it never waits for them, and too many are dropped."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

from emberq.client.aio.client import Client
from emberq.client.aio.transactions import TransactionEnd
from emberq.client.core.message import SendResult
from emberq.client.core.outgoing import Outgoing
from emberq.client.core.received import ReceivedMessage
from emberq.client.core.trace_records import (
    CONSUMED,
    DELAYED,
    FAILED,
    HALF,
    NORMAL,
    RAISED,
    Consumed,
    Context,
    Ended,
    Recalled,
    Sent,
    trace_message,
)
from emberq.errors import ConsumeControl, EmberqError
from emberq.model.system_topics import TRACE_TOPIC
from emberq.record import property_names as names
from emberq.record.properties import find_property

log = logging.getLogger(__name__)

# Contexts that wait to be sent; more are dropped and counted.
WAITING_MAX = 2048
FLUSH_INTERVAL_S = 0.5
CONTEXTS_PER_MESSAGE_MAX = 100
TEXT_MAX = 128_000
KEYS_MAX = 16_000
SEND_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 5.0
DEFAULT_REGION = "DefaultRegion"

_numbers = count()


class TraceSender(Protocol):
    """The producer of the trace itself, which is never traced."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, message: str, body: bytes, *, keys: Sequence[str]) -> Any: ...


def trace_group(group: str, kind: str) -> str:
    """`kind` is PRODUCE or CONSUME."""
    return f"_INNER_TRACE_PRODUCER-{group}-{kind}-{next(_numbers)}"


class Tracer:
    """The trace of one producer or consumer."""

    def __init__(
        self, client: Client, group: str, sender: TraceSender, topic: str | bool = True
    ) -> None:
        """`topic` True: the one that brokers make with traceTopicEnable."""
        self._client = client
        self._group = group
        self._sender = sender
        self._topic = topic if isinstance(topic, str) else TRACE_TOPIC
        self._waiting: deque[Context] = deque()
        self._has_many = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False
        # Contexts that never reached the trace topic.
        self.dropped = 0

    async def start(self) -> None:
        await self._sender.start()
        self._task = self._client.spawn(self._run(), "trace")

    async def close(self) -> None:
        """Send what waits, if that does not take long."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._flush()
        except TimeoutError:
            self.dropped += len(self._waiting)
        if self.dropped:
            log.warning("trace_incomplete group=%s dropped=%d", self._group, self.dropped)
        await self._sender.close()

    def sent(
        self, ready: Outgoing, result: SendResult, broker_address: str, started_at: float
    ) -> None:
        """A broker has stored a message. `started_at` is of the monotonic clock."""
        if not result.is_trace_on:
            return
        cost_ms = round((time.monotonic() - started_at) * 1000)
        self._add(
            Sent(
                at_ms=_now_ms() - cost_ms,
                region=result.region,
                group=self._group,
                topic=result.queue.topic,
                message_id=result.message_id,
                tags=find_property(ready.properties, names.TAGS),
                keys=find_property(ready.properties, names.KEYS),
                broker_address=broker_address,
                body_size=len(ready.body),
                cost_ms=cost_ms,
                message_type=_message_type(ready.properties),
                offset_message_id=result.offset_message_id,
            )
        )

    def transaction_ended(self, end: TransactionEnd) -> None:
        """A broker was told; what it makes of that is not known."""
        if find_property(end.properties, names.TRACE_ON) == "false":
            return
        self._add(
            Ended(
                at_ms=_now_ms(),
                region=find_property(end.properties, names.MESSAGE_REGION) or DEFAULT_REGION,
                group=self._group,
                topic=end.topic,
                message_id=end.message_id,
                tags=find_property(end.properties, names.TAGS),
                keys=find_property(end.properties, names.KEYS),
                broker_address=end.broker_address,
                transaction_id=end.transaction_id or end.message_id,
                outcome=end.outcome,
                is_from_check=end.is_from_check,
            )
        )

    def recalled(self, topic: str, message_id: str, region: str, *, is_success: bool) -> None:
        """A broker has answered to a recall."""
        self._add(
            Recalled(
                at_ms=_now_ms(),
                region=region,
                group=self._group,
                topic=topic,
                message_id=message_id,
                is_success=is_success,
            )
        )

    def consumed(
        self, batch: Sequence[ReceivedMessage], error: Exception | None, took_s: float
    ) -> None:
        """A handler has finished with a batch."""
        request_id = self._client.keys.next()
        ended_at_ms = _now_ms()
        code = CONSUMED
        if error is not None:
            code = FAILED if isinstance(error, ConsumeControl) else RAISED
        for message in batch:
            known = message.properties
            if known.get(names.TRACE_ON) == "false":
                continue
            self._add(
                Consumed(
                    started_at_ms=ended_at_ms - round(took_s * 1000),
                    ended_at_ms=ended_at_ms,
                    region=known.get(names.MESSAGE_REGION, DEFAULT_REGION),
                    group=self._group,
                    request_id=request_id,
                    message_id=message.message_id,
                    retry_times=message.reconsume_times,
                    keys=known.get(names.KEYS),
                    cost_ms=round(took_s * 1000 / len(batch)),
                    code=code,
                )
            )

    def _add(self, context: Context) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting.append(context)
        if len(self._waiting) >= CONTEXTS_PER_MESSAGE_MAX:
            self._has_many.set()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(FLUSH_INTERVAL_S):
                    await self._has_many.wait()
            except TimeoutError:
                pass
            self._has_many.clear()
            await self._flush()

    async def _flush(self) -> None:
        while self._waiting:
            first = [
                self._waiting[number]
                for number in range(min(len(self._waiting), CONTEXTS_PER_MESSAGE_MAX))
            ]
            text, keys, taken = trace_message(first, TEXT_MAX, KEYS_MAX)
            for _ in range(taken):
                self._waiting.popleft()
            try:
                await self._sender.send(self._topic, text.encode(), keys=keys)
            except EmberqError as error:
                self.dropped += taken
                if not self._is_failing:
                    log.warning("trace_unsent topic=%s reason=%s", self._topic, error)
                self._is_failing = True
            else:
                self._is_failing = False


def _message_type(properties: str) -> int:
    if find_property(properties, names.TRANSACTION_PREPARED) == "true":
        return HALF
    delays = (names.DELAY, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)
    if any(find_property(properties, name) is not None for name in delays):
        return DELAYED
    return NORMAL


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
