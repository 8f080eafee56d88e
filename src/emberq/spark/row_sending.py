"""The rows of one task on their way: the next ones are made ready while these are sent."""

import asyncio
import logging
import sys
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from emberq.client.aio.producer import Producer
from emberq.client.aio.transactions import Check
from emberq.client.core.message import Message
from emberq.errors import (
    BrokerError,
    BrokerNotFound,
    RemotingError,
    SendFailed,
    TopicNotFound,
)
from emberq.model.queue import MessageQueue
from emberq.spark.encoded_placing import bodies_of, placed_rows
from emberq.spark.encoded_rows import EncodedRows, RowEncoder
from emberq.spark.links import Link, looked_up_anew, retried
from emberq.spark.outgoing_columns import values_of
from emberq.spark.outgoing_rows import RowMessages, placed
from emberq.spark.row_rules import SIZE_HINT
from emberq.spark.sink_options import SEND_MAX_BYTES, Delivered, SinkOptions

log = logging.getLogger(__name__)

T = TypeVar("T")
ByQueue = Mapping[MessageQueue, list[Message]]

# What brokers, official ones too, say about a request or a message that is too large for them.
_SIZE_REMARKS = ("size exceeded", "length limit")

# How long a task that has failed waits until what was on its way is over and taken back.
CALL_OFF_MAX_S = 30.0

_producers: dict[tuple[int, str], asyncio.Task[Producer]] = {}  # by link and group


class Task(Struct, frozen=True):
    """What a task of Spark writes: a part of one batch of one writer."""

    writer: str
    batch: int
    partition: int

    @property
    def batch_key(self) -> str:
        return f"{self.writer}-{self.batch}"

    @property
    def id_prefix(self) -> str:
        """The same in every attempt."""
        return f"{self.batch_key}-{self.partition}"

    @property
    def first_queue(self) -> int:
        """Where rows begin that may go anywhere: each batch of few rows at another queue."""
        return zlib.crc32(self.writer.encode()) + self.batch + self.partition


class Encoded(Struct, frozen=True):
    """The way of rows that need no messages: who encodes them, who sends what fits into one
    request to a queue, and how many rows that may be."""

    encoder: RowEncoder
    send: Callable[[bytes, MessageQueue], Awaitable[object]]
    together_max: int = sys.maxsize


class RowSending:
    """Of one task: which way its rows go, and where to."""

    def __init__(
        self,
        rows: RowMessages,
        link: Link,
        producer: Producer,
        task: Task,
        options: SinkOptions,
        send: Callable[[ByQueue], Awaitable[None]],
        *,
        by_id: bool = False,
        encoded: Encoded | None = None,
    ) -> None:
        """Rows that `encoded` takes go its way, others with `send`."""
        self._rows = rows
        self._link = link
        self._producer = producer
        self._task = task
        self._options = options
        self._send = send
        self._by_id = by_id
        self._encoded = encoded

    def run(self, batches: Iterator[Any]) -> int:
        """Send all rows; returns how many. Behind a failure nothing is on its way any more: the
        process lives on, and rows of the next attempt must not be overtaken by these.

        Raises:
            BrokerNotFound: a broker that the options name is away, and stays so.
            MessageRefused, SendFailed, BrokerError
        """
        link = self._link
        on_the_way: asyncio.Task[None] | None = None
        try:
            for number, batch in enumerate(batches):
                work = self._ready(batch, self._task.first_queue + number)
                try:
                    if on_the_way is not None:
                        link.wait(_arrived(on_the_way))
                except BaseException:
                    work.close()
                    raise
                on_the_way = link.wait(_begun(work))
            if on_the_way is not None:
                link.wait(_arrived(on_the_way))
        except BaseException:
            if on_the_way is not None:
                link.wait(_called_off(on_the_way))
            raise
        return self._rows.count

    def _ready(self, batch: Any, first_queue: int) -> Coroutine[Any, Any, None]:
        """What is left to do when all before it is sent."""
        columns = {name: batch.column(name) for name in batch.schema.names}
        if self._encoded is not None:
            found = self._encoded.encoder.encode(columns, batch.num_rows)
            if found is not None:
                return self._send_encoded(self._encoded, found, first_queue)
        first_row = self._rows.count
        lists = {name: values_of(name, column, first_row) for name, column in columns.items()}
        messages = list(self._rows.messages(lists, batch.num_rows))
        queue_ids = lists.get("queueId", [None] * batch.num_rows)
        return self._send_messages(messages, queue_ids, first_queue, first_row)

    async def _send_messages(
        self,
        messages: Sequence[Message],
        queue_ids: Sequence[int | None],
        first_queue: int,
        first_row: int,
    ) -> None:
        topics = dict.fromkeys(message.topic for message in messages)
        queues = {topic: await self._queues(topic) for topic in topics}
        by_queue = placed(
            messages, queue_ids, queues, first_queue, by_id=self._by_id, first_row=first_row
        )
        await self._send(by_queue)

    async def _send_encoded(
        self, encoded: Encoded, by_topic: Sequence[EncodedRows], first_queue: int
    ) -> None:
        for rows in by_topic:
            by_queue = placed_rows(rows, await self._queues(rows.topic), first_queue)
            await side_by_side(
                self._send_elements(encoded, queue, own) for queue, own in by_queue.items()
            )

    async def _send_elements(self, encoded: Encoded, queue: MessageQueue, elements: Any) -> None:
        """One request after the other: rows of a queue keep their order."""
        for body in bodies_of(elements, self._options.send_max_bytes, encoded.together_max):
            once = partial(encoded.send, body, queue)
            await sent_again(once, self._producer, queue.topic, self._options)

    async def _queues(self, topic: str) -> list[MessageQueue]:
        work = partial(queues_for, self._link, self._producer, topic, self._options)
        return await sent_again(work, self._producer, topic, self._options)


async def _begun(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work)


async def _arrived(work: asyncio.Task[None]) -> None:
    await work


async def _called_off(work: asyncio.Task[None]) -> None:
    work.cancel()
    _, still_under_way = await asyncio.wait([work], timeout=CALL_OFF_MAX_S)
    if still_under_way:
        log.warning("rows_still_on_their_way waited_s=%g", CALL_OFF_MAX_S)
    elif not work.cancelled():
        work.exception()  # it failed as well: asyncio would call that forgotten


async def queues_for(
    link: Link, producer: Producer, topic: str, options: SinkOptions
) -> list[MessageQueue]:
    """Where messages of a topic may go: queues of the brokers that the options name, or all if
    they name none. A topic that nobody has is made by a broker at least once only: elsewhere its
    messages may stand on a broker that is away, and would be there twice.

    Raises:
        BrokerNotFound: one of them is away, or all that there are, or those that have the topic.
        TopicNotFound: they are there, and the topic is not.
    """
    brokers = options.brokers
    is_made = options.delivery is Delivered.AT_LEAST_ONCE
    try:
        queues = await (producer.queues(topic) if is_made else _queues_there(link, topic))
    except TopicNotFound:
        await link.check_present(brokers)
        if is_made or brokers:
            raise
        raise BrokerNotFound(
            f"no broker that is there has the topic {topic}",
            hint=f"Either the brokers that have it are away. Or there is none so far: make it, "
            f"as delivery={options.delivery} makes no topics",
        ) from None
    if not brokers:
        return queues
    away = sorted(set(brokers) - {queue.broker_name for queue in queues})
    if away:
        raise BrokerNotFound(f"{', '.join(away)} cannot take messages of {topic} at the moment")
    return [queue for queue in queues if queue.broker_name in brokers]


async def _queues_there(link: Link, topic: str) -> list[MessageQueue]:
    """Queues of a topic that there is. Raises TopicNotFound."""
    client = link.client
    found = await client.publish_queues(client.wrap(topic), template=None)
    return [link.unwrapped(queue) for queue in found.queues]


async def sent_again(
    work: Callable[[], Awaitable[T]], producer: Producer, topic: str, options: SinkOptions
) -> T:
    """Do what may be done again until a broker that is away for a moment is back, wherever."""

    async def attempt() -> T:
        try:
            return await work()
        except (RemotingError, BrokerNotFound, SendFailed):
            await looked_up_anew(producer.client, topic)
            raise
        except BrokerError as error:
            if not any(remark in error.remark for remark in _SIZE_REMARKS):
                raise
            raise type(error)(error.code, error.remark, error.broker, hint=SIZE_HINT) from None

    return await retried(attempt, options.retries, options.broker_wait_s)


async def side_by_side(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all; the first failure ends the others and is raised itself."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def producer_of(link: Link, group: str, check: Check | None = None) -> Producer:
    """The producer of a group in this process; `check` is the first one's. It serves all writes,
    so each of them says itself how long a request may take, and measures its rows."""
    key = (id(link), group)
    starting = _producers.get(key)
    if starting is None:

        def forget_failed(task: asyncio.Task[Producer]) -> None:
            if task.cancelled() or task.exception() is not None:
                _producers.pop(key, None)

        starting = _producers[key] = asyncio.create_task(_started(link, group, check))
        starting.add_done_callback(forget_failed)
    return await asyncio.shield(starting)


async def _started(link: Link, group: str, check: Check | None) -> Producer:
    producer = Producer(
        group,
        client=link.client,
        message_size_max=SEND_MAX_BYTES,
        check=check,
    )
    await producer.start()
    return producer
