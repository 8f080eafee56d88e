"""What a consumer tells administrators: its queues, rates and stacks, and one message on demand."""

import asyncio
import io
import sys
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from emberq.client.aio.handlers import Batch, Handler, HandlerThreads
from emberq.client.core.received import received_messages
from emberq.errors import RecordError
from emberq.model.queue import MessageQueue
from emberq.protocol.bodies.running import (
    CachedQueue,
    ConsumeRates,
    ConsumerRunningState,
    DirectConsumeOutcome,
    DirectConsumeResult,
)
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.fastjson import write_json
from emberq.protocol.versions import CURRENT, version_name

if TYPE_CHECKING:
    from emberq.client.aio.push_consumer import PushConsumer

MIB = 1024 * 1024


class TopicFigures(Struct):
    """Since the start."""

    consumed: int = 0
    failed: int = 0
    seconds: float = 0.0


class RunningState:
    def __init__(self, consumer: "PushConsumer", handlers: Mapping[str, Handler]) -> None:
        self._consumer = consumer
        self._handlers = handlers
        self._figures: dict[str, TopicFigures] = {}
        self._started_at = time.monotonic()

    def consumed(
        self, handler: Handler, batch: Batch, error: Exception | None, took_s: float
    ) -> None:
        figures = self._figures.get(batch[0].topic)
        if figures is None:
            figures = self._figures[batch[0].topic] = TopicFigures()
        figures.seconds += took_s
        if error is None:
            figures.consumed += len(batch)
        else:
            figures.failed += len(batch)

    def state(self, request: Command) -> ConsumerRunningState:
        consumer = self._consumer
        presence = consumer.presence()
        wants_stacks = (request.fields or {}).get("jstackEnable") == "true"
        return ConsumerRunningState(
            properties={
                "consumerGroup": consumer.group,
                "PROP_CLIENT_VERSION": version_name(CURRENT),
                "PROP_CONSUMEORDERLY": "true" if consumer.is_ordered else "false",
                "PROP_CONSUMER_START_TIMESTAMP": str(consumer.started_at_ms),
                "PROP_CONSUME_TYPE": presence.consume_type.value,
                "PROP_NAMESERVER_ADDR": ";".join(consumer.client.name_servers.addresses),
                "PROP_THREADPOOL_CORE_SIZE": str(consumer.workers),
            },
            queues={queue: self._cached(queue) for queue in consumer.works},
            subscriptions=presence.subscriptions,
            rates={topic: self._rates(figures) for topic, figures in self._figures.items()},
            thread_dump=stacks() if wants_stacks else None,
        )

    async def consume_directly(self, request: Command) -> Command:
        """Call the handler once; offsets stay where they are."""
        fields = request.fields or {}
        try:
            queue = MessageQueue(fields.get("brokerName", ""), 0, fields.get("topic", ""))
            [message, *_] = received_messages(request.body, queue)
        except (RecordError, ValueError) as error:
            return answer(request, ResponseCode.SYSTEM_ERROR, f"the message is unreadable: {error}")
        message.topic = message.properties.get("RETRY_TOPIC", message.topic)
        handler = self._handlers.get(self._consumer.client.unwrap(message.topic))
        if handler is None:
            return answer(request, ResponseCode.SYSTEM_ERROR, f"{message.topic} has no handler")
        started_at = time.monotonic()
        if handler.is_async:
            error_found = await handler.run_async([message])
        else:
            threads = HandlerThreads(1)
            [error_found] = await threads.run(handler, [[message]])
            threads.close()
        result = DirectConsumeResult(
            is_ordered=self._consumer.is_ordered,
            outcome=DirectConsumeOutcome.CR_SUCCESS
            if error_found is None
            else DirectConsumeOutcome.CR_THROW_EXCEPTION,
            remark=None if error_found is None else repr(error_found),
            spent_ms=round((time.monotonic() - started_at) * 1000),
        )
        return answer(request, body=write_json(result))

    def _cached(self, queue: MessageQueue) -> CachedQueue:
        work = self._consumer.works[queue]
        first = work.messages.first
        now, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        return CachedQueue(
            commit_offset=self._consumer.committed(queue),
            cached_offset_min=0 if first is None else first.queue_offset,
            cached_offset_max=max(work.messages.offset_max, 0),
            cached_message_count=len(work.messages),
            cached_size_mib=work.messages.size_bytes // MIB,
            is_locked=self._consumer.is_ordered and now < work.locked_until,
            is_dropped=work.is_dropped,
            last_pulled_at_ms=now_ms - round((now - work.pulled_at) * 1000),
            last_consumed_at_ms=now_ms - round((now - work.consumed_at) * 1000)
            if work.consumed_at
            else 0,
        )

    def _rates(self, figures: TopicFigures) -> ConsumeRates:
        lasted_s = max(time.monotonic() - self._started_at, 0.001)
        count = figures.consumed + figures.failed
        return ConsumeRates(
            consumed_tps=figures.consumed / lasted_s,
            failed_tps=figures.failed / lasted_s,
            failed_message_count=figures.failed,
            consume_time_ms=figures.seconds * 1000 / count if count else 0.0,
        )


def stacks() -> str:
    """Where every thread and every task stands."""
    text = io.StringIO()
    for number, frame in sys._current_frames().items():
        text.write(f"Thread {number}\n")
        traceback.print_stack(frame, file=text)
    for task in asyncio.all_tasks():
        text.write(f"Task {task.get_name()}\n")
        task.print_stack(file=text)
    return text.getvalue()
