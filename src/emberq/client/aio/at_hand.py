"""Administration at hand: what programs ask beside sending and consuming.

Producers and consumers offer these methods themselves, so that no second object is needed.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from emberq.client.aio.client import Client
from emberq.client.aio.queue_calls import QueueCalls
from emberq.client.core.outgoing import check_topic
from emberq.client.core.received import ReceivedMessage, received_messages
from emberq.errors import BrokerError, ClientError, MessageNotFound
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import DEFAULT_TOPIC
from emberq.model.topic import READ_WRITE, TopicFilterType
from emberq.protocol.codes import ResponseCode
from emberq.protocol.headers.queries import QueryMessage, ViewMessageById
from emberq.protocol.headers.topics import UpdateAndCreateTopic
from emberq.protocol.versions import V4_9_3
from emberq.record.host import format_host
from emberq.record.message_id import parse_offset_id

QUERY_COUNT = 32
QUERY_TIMEOUT_S = 10.0
_MS = 1000
# Brokers tell times by their own clocks, of which a client's knows nothing.
_NO_END_MS = (1 << 63) - 1


class AtHand:
    """Topics and queues as the user knows them."""

    client: Client

    async def create_topic(
        self, topic: str, *, queues: int = 8, template_topic: str = DEFAULT_TOPIC
    ) -> None:
        """Create a topic on every broker that has the template, or change its number of queues.

        Raises:
            TopicNotFound: no broker has the template.
            BrokerError, RemotingError: a broker refused, or did not answer.
        """
        check_topic(topic)
        self.client.check_running()
        route = await self.client.routes.get(self.client.wrap(template_topic))
        header = UpdateAndCreateTopic(
            topic=self.client.wrap(topic),
            default_topic=template_topic,
            read_queue_count=queues,
            write_queue_count=queues,
            permission=READ_WRITE,
            filter_type=TopicFilterType.SINGLE_TAG.value,
        )
        for broker in sorted(each.broker_name for each in route.brokers):
            await self.client.call_broker(broker, header)

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """Every queue that can be read. Raises TopicNotFound, NoNameServer."""
        self.client.check_running()
        queues = await self.client.subscribe_queues(self.client.wrap(topic))
        return [MessageQueue(each.broker_name, each.queue_id, topic) for each in queues]

    async def min_offset(self, queue: MessageQueue) -> int:
        return await self._queue_calls().min_offset(await self._wire(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return await self._queue_calls().max_offset(await self._wire(queue))

    async def offset_by_time(self, queue: MessageQueue, moment: datetime) -> int:
        """The first message stored at or after a moment."""
        time_ms = round(moment.timestamp() * _MS)
        return await self._queue_calls().offset_by_time(await self._wire(queue), time_ms)

    async def earliest_store_time(self, queue: MessageQueue) -> datetime | None:
        """When the oldest message of a queue was stored; None: it is empty."""
        time_ms = await self._queue_calls().earliest_time_ms(await self._wire(queue))
        return None if time_ms < 0 else datetime.fromtimestamp(time_ms / _MS, UTC)

    async def view_message(self, offset_message_id: str) -> ReceivedMessage:
        """The message with a broker's id, which names the broker itself.

        Raises:
            MessageNotFound, RecordError, RemotingError
        """
        host, log_offset = parse_offset_id(offset_message_id)
        request = self.client.request(ViewMessageById(commit_log_offset=log_offset))
        try:
            answer = await self.client.call(format_host(host), request)
        except BrokerError as error:
            raise MessageNotFound(f"no message {offset_message_id}: {error.remark}") from None
        [message, *_] = _messages(answer.body, "", self.client)
        return message

    async def query_messages(
        self,
        topic: str,
        key: str,
        *,
        count: int = QUERY_COUNT,
        begin: datetime | None = None,
        end: datetime | None = None,
        is_complete: bool = False,
        broker_name: str | None = None,
    ) -> list[ReceivedMessage]:
        """Messages with a key, or with a producer's id, from all brokers or one; oldest first.

        Raises:
            TopicNotFound, NoNameServer
            ClientError: no broker could be asked.
            BrokerNotFound, BrokerError, RemotingError: with `is_complete`, one of them could not.
        """
        self.client.check_running()
        wire_topic = self.client.wrap(topic)
        if broker_name is None:
            route = await self.client.routes.get(wire_topic)
            names = sorted(broker.broker_name for broker in route.brokers)
        else:
            names = [broker_name]
        header = QueryMessage(
            topic=wire_topic,
            key=key,
            max_message_count=count,
            begin_at_ms=0 if begin is None else round(begin.timestamp() * _MS),
            end_at_ms=_NO_END_MS if end is None else round(end.timestamp() * _MS),
            is_unique_key_query=False,
        )
        answers = await asyncio.gather(
            *(self._query(name, header) for name in names), return_exceptions=True
        )
        found: list[ReceivedMessage] = []
        failures: list[BaseException] = []
        for each in answers:
            if isinstance(each, BaseException):
                failures.append(each)
            else:
                found += each
        if failures and is_complete:
            raise failures[0]
        if failures and len(failures) == len(names):
            raise ClientError(f"no broker of {topic} answered: {failures[0]}") from failures[0]
        # The index knows hashes: what only collides is left out here.
        exact = [each for each in found if key in each.keys or key == each.message_id]
        return sorted(exact, key=lambda message: message.stored_at_ms)[:count]

    async def _query(self, broker_name: str, header: QueryMessage) -> list[ReceivedMessage]:
        address = await self.client.broker_address(broker_name)
        request = self.client.request(header)
        # Servers differ in whether they sign the mark of key queries; none does for this version.
        request.version = V4_9_3
        accepts: Sequence[int] = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        answer = await self.client.call(
            address, request, timeout_s=QUERY_TIMEOUT_S, accepts=accepts
        )
        return _messages(answer.body, broker_name, self.client)

    def _queue_calls(self) -> QueueCalls:
        self.client.check_running()
        return QueueCalls(self.client)

    async def _wire(self, queue: MessageQueue) -> MessageQueue:
        """The queue's name on the wire; its broker's address is known afterwards."""
        topic = self.client.wrap(queue.topic)
        await self.client.routes.get(topic)
        return MessageQueue(queue.broker_name, queue.queue_id, topic)


def _messages(content: bytes, broker_name: str, client: Client) -> list[ReceivedMessage]:
    """Records of any queues; each message says itself which it is from."""
    messages = received_messages(content, MessageQueue(broker_name, 0, ""))
    for message in messages:
        message.topic = client.unwrap(message.topic)
        message.queue = MessageQueue(broker_name, message.queue_id, message.topic)
    return messages
