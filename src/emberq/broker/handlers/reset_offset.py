"""A tool moves a group to another place (222): the broker does, or tells its clients to (220)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, cast

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.handlers.client_calls import CODE_NOT_SET_REMARK, check_is_new_enough
from emberq.broker.members import Consumers
from emberq.broker.topics import Topics
from emberq.errors import RemotingError, RequestRejected
from emberq.model.queue import MessageQueue
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.offsets import QueueOffset, QueueOffsetList, QueueOffsets
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.header_fields import to_fields
from emberq.protocol.headers.reset_offset import (
    InvokeBrokerToResetOffset,
    ResetConsumerClientOffset,
)
from emberq.protocol.languages import Language
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry, Request

log = logging.getLogger(__name__)

# What stands for "to the end" and for "no offset given".
UNSET = -1


class QueueEnds(Protocol):
    """Of the store."""

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int) -> int: ...


class CommittedOffsets(Protocol):
    """Of all groups."""

    def query(self, group: str, topic: str, queue_id: int) -> int: ...

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None: ...


class ResetOffsetHandlers:
    def __init__(
        self,
        *,
        topics: Topics,
        groups: Groups,
        consumers: Consumers,
        offsets: CommittedOffsets,
        store: QueueEnds,
        config: Callable[[], BrokerConfig],
        broker_name: str,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._store = store
        self._config = config
        self._broker_name = broker_name

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add_typed(InvokeBrokerToResetOffset, self.reset)

    async def reset(self, request: Request[InvokeBrokerToResetOffset]) -> Command:
        header = request.header
        log.info(
            "offset_reset_asked peer=%s topic=%s group=%s time_ms=%d queue=%d",
            request.connection.peer,
            header.topic,
            header.group,
            header.timestamp_ms,
            header.queue_id,
        )
        command = request.command
        if self._config().use_server_side_reset_offset:
            body = self._body(header.topic, await self._reset_here(header))
            return answer(command, body=encode_body(body))
        targets = await self._reset_clients(header, is_asked_by_cpp=_is_cpp(command))
        body = self._body(header.topic, targets)
        return answer(command, remark=CODE_NOT_SET_REMARK, body=encode_body(body))

    async def _reset_here(self, header: InvokeBrokerToResetOffset) -> dict[int, int]:
        """Needs no client: the next pull of each queue is answered with its new place."""
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist"
            )
        if self._groups.get(header.group) is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist"
            )
        if header.queue_id < 0:
            queue_ids = range(topic.read_queue_count)
            targets = await self._offsets_by_time(header.topic, queue_ids, header.timestamp_ms)
        elif header.offset is None or header.offset == UNSET:
            queue_ids = range(header.queue_id, header.queue_id + 1)
            targets = await self._offsets_by_time(header.topic, queue_ids, header.timestamp_ms)
        else:
            self._check_range(header.topic, header.queue_id, header.offset)
            targets = {header.queue_id: header.offset}
        if not targets:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        for queue_id, offset in targets.items():
            self._offsets.assign_reset(header.group, header.topic, queue_id, offset)
        return targets

    def _check_range(self, topic: str, queue_id: int, offset: int) -> None:
        low = self._store.min_offset(topic, queue_id)
        high = self._store.max_offset(topic, queue_id)
        if not low <= offset <= high + 1:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {offset} not in consume queue range [{low}-{high}]",
            )

    async def _reset_clients(
        self, header: InvokeBrokerToResetOffset, *, is_asked_by_cpp: bool
    ) -> dict[int, int]:
        """Clients drop what they have and commit the new offsets; the broker stores nothing."""
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                "[reset-offset] reset offset failed, no topic in this broker. "
                f"topic={header.topic}",
            )
        queue_ids = range(topic.write_queue_count)
        committed = {
            queue_id: self._offsets.query(header.group, header.topic, queue_id)
            for queue_id in queue_ids
        }
        if UNSET in committed.values():
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist"
            )
        targets = await self._offsets_by_time(header.topic, queue_ids, header.timestamp_ms)
        for queue_id, offset in targets.items():
            target = max(offset, 0)
            if not header.is_forced:
                target = min(target, committed[queue_id])
            targets[queue_id] = target
        self._push(header, targets, is_asked_by_cpp=is_asked_by_cpp)
        return targets

    def _push(
        self,
        header: InvokeBrokerToResetOffset,
        targets: dict[int, int],
        *,
        is_asked_by_cpp: bool,
    ) -> None:
        group = self._consumers.get(header.group)
        if group is None:
            raise RequestRejected(
                ResponseCode.CONSUMER_NOT_ONLINE,
                "Consumer not online, so can not reset offset, "
                f"Group: {header.group} Topic: {header.topic} Timestamp: {header.timestamp_ms}",
            )
        for member in group.members.values():
            check_is_new_enough(member)
        body: QueueOffsets | QueueOffsetList = self._body(header.topic, targets)
        if is_asked_by_cpp:
            body = self._list(header.topic, targets)
        content = encode_body(body)
        # Whether it was forced is never passed on.
        fields = to_fields(
            ResetConsumerClientOffset(
                topic=header.topic, group=header.group, timestamp_ms=header.timestamp_ms
            )
        )
        for member in group.members.values():
            push = new_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, dict(fields), content)
            try:
                cast(Connection, member.connection).send_oneway(push)
            except RemotingError as error:
                log.warning("offset_reset_lost client=%s reason=%s", member.client_id, error)

    async def _offsets_by_time(self, topic: str, queue_ids: range, time_ms: int) -> dict[int, int]:
        if time_ms < 0:
            return {queue_id: self._store.max_offset(topic, queue_id) for queue_id in queue_ids}
        return await asyncio.to_thread(
            lambda: {
                queue_id: self._store.offset_by_time(topic, queue_id, time_ms)
                for queue_id in queue_ids
            }
        )

    def _body(self, topic: str, targets: dict[int, int]) -> QueueOffsets:
        return QueueOffsets(
            offsets={
                MessageQueue(self._broker_name, queue_id, topic): offset
                for queue_id, offset in targets.items()
            }
        )

    def _list(self, topic: str, targets: dict[int, int]) -> QueueOffsetList:
        return QueueOffsetList(
            offsets=[
                QueueOffset(
                    broker_name=self._broker_name, offset=offset, queue_id=queue_id, topic=topic
                )
                for queue_id, offset in targets.items()
            ]
        )


def _is_cpp(command: Command) -> bool:
    return command.language in (Language.CPP.name, Language.CPP.value)
