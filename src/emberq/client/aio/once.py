"""Batches whose messages EmberQ's brokers store once (docs/formats/send-once.md)."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from emberq.client.aio.client import Client
from emberq.client.core.message import Message
from emberq.client.core.outgoing import (
    MESSAGE_SIZE_MAX_BYTES,
    check_batch,
    outgoing_batch,
    split_batch,
)
from emberq.client.core.send_attempts import is_result
from emberq.errors import BrokerError, ConfigError, SystemBusy
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import DEFAULT_TOPIC
from emberq.protocol.codes import ResponseCode
from emberq.protocol.headers.send import SendOnce

log = logging.getLogger(__name__)

# Messages in one request: the broker looks each of them up before it goes on with others.
TOGETHER_MAX = 500
_NEW_TOPIC_QUEUES = 4
_STORED_CODES = tuple(int(code) for code in ResponseCode if is_result(code))


class OnceSends:
    """Of one task."""

    def __init__(self, client: Client, wire_group: str) -> None:
        self._client = client
        self._group = wire_group
        self._is_warned = False

    async def send(
        self,
        messages: Sequence[tuple[Message, str]],
        queue: MessageQueue,
        timeout_s: float,
        *,
        size_max: int = MESSAGE_SIZE_MAX_BYTES,
    ) -> None:
        """Store messages with their ids, in their order; those whose id the topic has are left
        out. May be repeated after any failure. `size_max` is that of a request, in bytes: brokers
        take it all as one body.

        Raises:
            ConfigError: the broker is not EmberQ's.
            SystemBusy: it is, or has the messages and could not make them safe in time.
            MessageRefused, BrokerNotFound, BrokerError, RemotingError
        """
        check_batch([message for message, _ in messages])
        for some in _chunks(messages):
            for piece in split_batch(some, size_max):
                elements = b"".join(element for element, _ in piece)
                await self.send_elements(elements, queue, timeout_s)

    async def send_elements(self, elements: bytes, queue: MessageQueue, timeout_s: float) -> None:
        """As `send`, of at most TOGETHER_MAX messages that are encoded already. Raises as that."""
        topic = self._client.wrap(queue.topic)
        ready = outgoing_batch(topic, (elements,), (), is_store_awaited=True)
        header = SendOnce(
            producer_group=self._group,
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_count=_NEW_TOPIC_QUEUES,
            queue_id=queue.queue_id,
            system_flag=0,
            born_at_ms=time.time_ns() // 1_000_000,
            flag=0,
            properties=ready.properties,
            is_batch=True,
            target_broker_name=queue.broker_name,
        )
        await self._call(queue.broker_name, header, ready.body, timeout_s)

    async def _call(
        self, broker_name: str, header: SendOnce, body: bytes, timeout_s: float
    ) -> None:
        try:
            answer = await self._client.call_broker(
                broker_name, header, body, timeout_s=timeout_s, accepts=_STORED_CODES
            )
        except BrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            raise ConfigError(
                f"{broker_name} does not know how to store messages once: delivery=idempotent is "
                "for EmberQ's brokers, delivery=transactional for all"
            ) from None
        if answer.code == ResponseCode.SLAVE_NOT_AVAILABLE:
            # It stays so until somebody starts a slave: what is sent again is no safer.
            if not self._is_warned:
                log.warning("stored_without_slave broker=%s", broker_name)
            self._is_warned = True
        elif answer.code != ResponseCode.SUCCESS:
            # Sent again, what is there is not stored twice, but waited for.
            raise SystemBusy(answer.code, "stored, and not safe in time", broker_name)


def _chunks(
    messages: Iterable[tuple[Message, str]],
) -> Iterator[list[tuple[Message, str]]]:
    rest = iter(messages)
    while some := list(islice(rest, TOGETHER_MAX)):
        yield some
