"""Once per id: rows are sent as they come, and brokers leave out those that they have."""

import hashlib
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from emberq.client.aio.once import TOGETHER_MAX, OnceSends
from emberq.client.core.message import Message
from emberq.model.queue import MessageQueue
from emberq.spark.encoded_rows import RowEncoder
from emberq.spark.links import link_to
from emberq.spark.outgoing_rows import ID_PROPERTY, RowMessages
from emberq.spark.row_rules import RowRules
from emberq.spark.row_sending import (
    ByQueue,
    Encoded,
    RowSending,
    Task,
    producer_of,
    sent_again,
    side_by_side,
)
from emberq.spark.sink_options import SinkOptions

# Of the 16 bytes of an id, tools read four as the time since the month began: they are zero.
_HASH_BYTES = 12
_TIME_AT = 20
_NO_TIME = "00000000"


class IdempotentDelivery:
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, batches: Iterator[Any], task: Task) -> int:
        """How many messages are stored now, by this attempt or another.

        Raises:
            ConfigError: a broker is not EmberQ's.
            MessageRefused, BrokerError, RemotingError
        """
        options = self._options
        link = link_to(options.connection)
        producer = link.run(lambda: producer_of(link, options.producer_group), 0)
        size_max = options.send_max_bytes
        rules = RowRules(size_max_bytes=size_max, is_never_alone=True, has_own_ids=True)
        rows = RowMessages(options.topic, task.id_prefix, rules)
        sends = OnceSends(link.client, link.client.wrap(options.producer_group))

        async def send_to(queue: MessageQueue, own: list[Message]) -> None:
            with_ids = [
                (message, unique_key(message.topic, message.properties[ID_PROPERTY]))
                for message in own
            ]
            await sent_again(
                lambda: sends.send(with_ids, queue, options.timeout_s, size_max=size_max),
                producer,
                queue.topic,
                options,
            )

        async def send(by_queue: ByQueue) -> None:
            await side_by_side(send_to(queue, own) for queue, own in by_queue.items())

        def send_elements(body: bytes, queue: MessageQueue) -> Awaitable[object]:
            return sends.send_elements(body, queue, options.timeout_s)

        encoded = Encoded(RowEncoder(rows, _unique_keys, by_id=True), send_elements, TOGETHER_MAX)
        sending = RowSending(rows, link, producer, task, options, send, by_id=True, encoded=encoded)
        return sending.run(batches)

    def commit(self, results: Sequence[object]) -> None:
        """Every message was acknowledged before its task ended."""

    def abort(self, results: Sequence[object]) -> None:
        """What was sent stays; another attempt adds what is missing."""


def _unique_keys(topic: str, ids: Any, count: int) -> Any:
    return pa.array([unique_key(topic, each) for each in ids.to_pylist()], pa.binary())


def unique_key(topic: str, own_id: str) -> str:
    """What brokers know a message by: the same for the same id and topic, for ever."""
    text = f"{topic}\n{own_id}"
    digits = hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).hexdigest().upper()
    return digits[:_TIME_AT] + _NO_TIME + digits[_TIME_AT:]
