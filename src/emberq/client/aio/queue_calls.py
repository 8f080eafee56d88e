"""Questions about one queue, and offsets of a group in it, to the broker that has it."""

from collections.abc import Iterable, Sequence

from emberq.client.aio.client import Client
from emberq.errors import BrokerNotFound
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command
from emberq.protocol.header_fields import Header, from_fields
from emberq.protocol.headers.offsets import (
    GetEarliestMessageStoreTime,
    GetEarliestMessageStoreTimeResponse,
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    UpdateConsumerOffset,
)

NO_OFFSET = -1


class QueueCalls:
    """Topics and groups are given as they are on the wire."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def max_offset(self, queue: MessageQueue) -> int:
        return await self._ask(
            queue,
            GetMaxOffset(
                topic=queue.topic, queue_id=queue.queue_id, target_broker_name=queue.broker_name
            ),
        )

    async def min_offset(self, queue: MessageQueue) -> int:
        return await self._ask(
            queue,
            GetMinOffset(
                topic=queue.topic, queue_id=queue.queue_id, target_broker_name=queue.broker_name
            ),
        )

    async def offset_by_time(self, queue: MessageQueue, time_ms: int) -> int:
        """The first message stored at or after a time."""
        return await self._ask(
            queue,
            SearchOffsetByTimestamp(
                topic=queue.topic,
                queue_id=queue.queue_id,
                timestamp_ms=time_ms,
                target_broker_name=queue.broker_name,
            ),
        )

    async def earliest_time_ms(self, queue: MessageQueue) -> int:
        header = GetEarliestMessageStoreTime(
            topic=queue.topic, queue_id=queue.queue_id, target_broker_name=queue.broker_name
        )
        answer = await self._client.call_broker(queue.broker_name, header, is_vip=True)
        return from_fields(GetEarliestMessageStoreTimeResponse, answer.fields or {}).timestamp_ms

    async def committed(
        self, group: str, queue: MessageQueue, *, is_zero_if_young: bool | None = None
    ) -> int:
        """The group's offset; -1: it has none. A queue whose first message is still in memory may
        have offset 0 for every group, unless `is_zero_if_young` is False."""
        header = QueryConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            is_zero_if_not_found=is_zero_if_young,
            target_broker_name=queue.broker_name,
        )
        accepts: Sequence[int] = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        answer = await self._client.call_broker(queue.broker_name, header, accepts=accepts)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return NO_OFFSET
        return _offset(answer)

    async def commit(
        self, group: str, queue: MessageQueue, offset: int, *, is_oneway: bool = True
    ) -> None:
        """Store a group's offset; oneway unless the caller must know that it arrived."""
        header = UpdateConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            target_broker_name=queue.broker_name,
        )
        try:
            address = await self._client.broker_address(queue.broker_name)
        except BrokerNotFound:
            # A master that is away: a slave passes it on later.
            address = await self._client.broker_address(queue.broker_name, 1)
        request = self._client.request(header)
        if is_oneway:
            await self._client.connections.send_oneway(address, request)
        else:
            await self._client.call(address, request)

    async def _ask(self, queue: MessageQueue, header: Header) -> int:
        return _offset(await self._client.call_broker(queue.broker_name, header, is_vip=True))


def _offset(answer: Command) -> int:
    return from_fields(OffsetResponse, answer.fields or {}).offset


def firsts_and_others(
    queues: Iterable[MessageQueue],
) -> tuple[list[MessageQueue], list[MessageQueue]]:
    """One queue of each topic and broker, and the rest: so that offsets are committed in two steps.

    Official brokers make a group's table of a topic when its first offset comes. Of two that come
    at once to different queues, each may get a table of its own, and one of the tables is lost.
    """
    firsts: dict[tuple[str, str], MessageQueue] = {}
    others: list[MessageQueue] = []
    for queue in queues:
        if firsts.setdefault((queue.broker_name, queue.topic), queue) != queue:
            others.append(queue)
    return list(firsts.values()), others
