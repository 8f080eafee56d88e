"""Offsets: committed ones (14, 15), a queue's ends (30, 31), and by time (29, 32)."""

import asyncio
from collections.abc import Callable

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.offsets import ConsumerOffsets
from emberq.broker.topics import Topics
from emberq.errors import ProtocolError, RequestRejected
from emberq.protocol.answer_frame import AnswerFrame
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import ONEWAY_BIT, Command, answer
from emberq.protocol.header_fields import from_fields, read_int32, read_int64, to_fields
from emberq.protocol.headers.offsets import (
    GetEarliestMessageStoreTime,
    GetEarliestMessageStoreTimeResponse,
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
)
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer, HandlerRegistry, Request
from emberq.store.lookup import Boundary
from emberq.store.message_store import MessageStore

_COMMITTED = AnswerFrame(ResponseCode.SUCCESS, None)
_OFFSET = AnswerFrame(ResponseCode.SUCCESS, None, ("offset",))
_MIN_OFFSET = AnswerFrame(ResponseCode.SUCCESS, "", ("offset",))  # official brokers say nothing so


class OffsetHandlers:
    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._config = config

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.UPDATE_CONSUMER_OFFSET, self.commit)
        registry.add(RequestCode.QUERY_CONSUMER_OFFSET, self.query)
        registry.add_typed(GetMaxOffset, self.max_offset)
        registry.add_typed(GetMinOffset, self.min_offset)
        registry.add_typed(SearchOffsetByTimestamp, self.by_time)
        registry.add_typed(GetEarliestMessageStoreTime, self.earliest_time)

    def commit(self, command: Command, _: Connection) -> Answer:
        """Hot: every client commits every queue each five seconds, mostly oneway."""
        fields = command.fields or {}
        group, topic = fields.get("consumerGroup"), fields.get("topic")
        queue_id = read_int32(fields.get("queueId"))
        offset = read_int64(fields.get("commitOffset"))
        if group is None or self._groups.get(group) is None:
            shown = "null" if group is None else group
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {shown} not exist!", {}
            )
        if topic is None:
            raise ProtocolError("UpdateConsumerOffset: topic is missing")
        if self._topics.get(topic) is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!", {})
        if queue_id is None:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"QueueId is null, topic is {topic}", {}
            )
        if offset is None:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"Offset is null, topic is {topic}", {}
            )
        offsets = self._offsets
        if offsets.has_reset(group, topic, queue_id) and (
            self._config().use_server_side_reset_offset
        ):
            return answer(command, remark="Offset has been previously reset", fields={})
        offsets.commit(group, topic, queue_id, offset)
        return None if command.flag & ONEWAY_BIT else _COMMITTED.head(command)

    def query(self, command: Command, _: Connection) -> Answer:
        # No group has no offset, which is no error.
        asked = from_fields(QueryConsumerOffset, {"consumerGroup": "", **(command.fields or {})})
        group, topic, queue_id = asked.consumer_group, asked.topic, asked.queue_id
        offset = self._offsets.query(group, topic, queue_id)
        if offset < 0:
            if asked.is_zero_if_not_found is False:
                remark = "Not found, do not set to zero, maybe this group boot first"
                raise RequestRejected(ResponseCode.QUERY_NOT_FOUND, remark, {})
            # A young topic is read from its first message, whatever the client's rule says.
            if self._store.min_offset(topic, queue_id) > 0 or (
                not self._store.is_in_memory(topic, queue_id, 0)
            ):
                remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
                raise RequestRejected(ResponseCode.QUERY_NOT_FOUND, remark, {})
            offset = 0
        return _OFFSET.head(command, (offset,))

    def max_offset(self, request: Request[GetMaxOffset]) -> Answer:
        asked = request.header
        return _OFFSET.head(request.command, (self._store.max_offset(asked.topic, asked.queue_id),))

    def min_offset(self, request: Request[GetMinOffset]) -> Answer:
        asked = request.header
        return _MIN_OFFSET.head(
            request.command, (self._store.min_offset(asked.topic, asked.queue_id),)
        )

    async def by_time(self, request: Request[SearchOffsetByTimestamp]) -> Command:
        asked = request.header
        is_upper = (asked.boundary_type or "").upper() == Boundary.UPPER.name
        offset = await asyncio.to_thread(
            self._store.offset_by_time,
            asked.topic,
            asked.queue_id,
            asked.timestamp_ms,
            Boundary.UPPER if is_upper else Boundary.LOWER,
        )
        return answer(request.command, fields=to_fields(OffsetResponse(offset=offset)))

    async def earliest_time(self, request: Request[GetEarliestMessageStoreTime]) -> Command:
        asked = request.header
        time_ms = await asyncio.to_thread(self._store.earliest_time_ms, asked.topic, asked.queue_id)
        response = GetEarliestMessageStoreTimeResponse(timestamp_ms=time_ms)
        return answer(request.command, fields=to_fields(response))
