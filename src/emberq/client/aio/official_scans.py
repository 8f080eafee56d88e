"""The half of scans for official brokers: the same answers by official requests, one per queue."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeVar

from emberq.client.aio.client import Client
from emberq.client.aio.queue_calls import NO_OFFSET, QueueCalls, firsts_and_others
from emberq.client.core.scanned import QueueHead, ScanFilter, ScannedPart
from emberq.errors import (
    BrokerError,
    GroupNotFound,
    OffsetOutOfRange,
    RemotingError,
    TopicNotFound,
)
from emberq.model.group import GroupConfig
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import DEFAULT_TOPIC, SYSTEM_GROUP_PREFIX, retry_topic
from emberq.model.topic import READ_WRITE, TopicFilterType
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.offsets import ConsumerOffsetTable
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import new_request
from emberq.protocol.fastjson_writer import Dialect
from emberq.protocol.header_fields import from_fields
from emberq.protocol.headers.pull import PullMessage, PullMessageResponse
from emberq.protocol.headers.topics import UpdateAndCreateTopic

log = logging.getLogger(__name__)

T = TypeVar("T")

# Official brokers want a group with each pull; one with this prefix is made on first use, whatever
# the settings say, and is shown to nobody.
SCAN_GROUP = f"{SYSTEM_GROUP_PREFIX}EMBERQ_SCAN"
# Starts are the offsets of a second group.
START_GROUP_SUFFIX = "_SCAN_START"
PULL_COUNT = 32
CALLS_MAX = 16
_SUBSCRIPTION_BIT = 4
_PULL_CODES = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class OfficialScans:
    """Queues and groups are given as they are on the wire."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._calls = QueueCalls(client)
        self._shown: set[tuple[str, str]] = set()  # broker names and groups

    async def heads(
        self, broker_name: str, queues: Collection[MessageQueue], group: str | None
    ) -> dict[MessageQueue, QueueHead]:
        """Of queues of one broker."""
        lows = await limited(self._calls.min_offset, queues)
        highs = await limited(self._calls.max_offset, queues)
        committed: list[int | None] = [None] * len(queues)
        starts = committed
        if group is not None:
            committed = await self._offsets(broker_name, group, queues)
            starts = await self._offsets(broker_name, group + START_GROUP_SUFFIX, queues)
        found = zip(lows, highs, committed, starts, strict=True)
        return {queue: QueueHead(*head) for queue, head in zip(queues, found, strict=True)}

    async def pull(
        self, queue: MessageQueue, offset: int, wanted: ScanFilter, timeout_s: float | None
    ) -> ScannedPart:
        header = PullMessage(
            consumer_group=SCAN_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_message_count=PULL_COUNT,
            system_flag=_SUBSCRIPTION_BIT,
            commit_offset=0,
            suspend_timeout_ms=0,
            subscription=wanted.expression,
            subscription_version=0,
            expression_type=wanted.expression_type,
            target_broker_name=queue.broker_name,
        )
        answer = await self._client.call_broker(
            queue.broker_name, header, timeout_s=timeout_s, accepts=_PULL_CODES
        )
        found = from_fields(PullMessageResponse, answer.fields or {})
        low, high = found.min_offset, found.max_offset
        if answer.code == ResponseCode.PULL_OFFSET_MOVED and offset != high:
            raise OffsetOutOfRange(place_name(queue), offset, low, high)
        content = answer.body if answer.code == ResponseCode.SUCCESS else b""
        return ScannedPart(content, max(offset, found.next_begin_offset), low, high)

    async def pin(
        self, broker_name: str, group: str, starts: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """Where a query starts in queues of one broker, unless that was written down before."""
        start_group = group + START_GROUP_SUFFIX
        known_starts = await self._offsets(broker_name, start_group, starts)
        pinned = dict(zip(starts, known_starts, strict=True))
        fresh = {queue: starts[queue] for queue, start in pinned.items() if start is None}
        await self.commit(start_group, fresh)
        return {queue: starts[queue] if start is None else start for queue, start in pinned.items()}

    async def unpin(self, group: str, queues: Iterable[MessageQueue]) -> None:
        await self.commit(group + START_GROUP_SUFFIX, dict.fromkeys(queues, NO_OFFSET))

    async def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        async def commit(queue: MessageQueue) -> None:
            await self._calls.commit(group, queue, offsets[queue], is_oneway=False)

        async def commit_all() -> None:
            for step in firsts_and_others(offsets):
                await limited(commit, step)

        try:
            await commit_all()
        except BrokerError as error:
            if not isinstance(error, GroupNotFound) and error.code != ResponseCode.SYSTEM_ERROR:
                raise
            for broker_name in {queue.broker_name for queue in offsets}:
                await self._make_group(broker_name, group)
            await commit_all()

    async def show(self, group: str, broker_names: Collection[str]) -> None:
        """Let tools find the offsets of a group: they look for it by its retry topic, which
        brokers make for consumers only."""
        for broker_name in broker_names:
            if (broker_name, group) in self._shown:
                continue
            self._shown.add((broker_name, group))
            topic = retry_topic(group)
            try:
                if broker_name not in await self._brokers_of(topic):
                    header = UpdateAndCreateTopic(
                        topic=topic,
                        default_topic=DEFAULT_TOPIC,
                        read_queue_count=1,
                        write_queue_count=1,
                        permission=READ_WRITE,
                        filter_type=TopicFilterType.SINGLE_TAG.value,
                    )
                    await self._client.call_broker(broker_name, header)
            except (BrokerError, RemotingError) as error:  # offsets do not depend on it
                log.warning("group_not_shown group=%s reason=%s", group, error)

    async def _brokers_of(self, topic: str) -> set[str]:
        try:
            await self._client.routes.refresh(topic)
        except TopicNotFound:
            return set()
        route = await self._client.routes.get(topic)
        return {each.broker_name for each in route.brokers}

    async def _make_group(self, broker_name: str, group: str) -> None:
        address = await self._client.broker_address(broker_name)
        body = encode_body(GroupConfig(name=group), Dialect.STRICT)
        request = new_request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
        await self._client.call(address, request)

    async def _offsets(
        self, broker_name: str, group: str, queues: Collection[MessageQueue]
    ) -> list[int | None]:
        """A group's offsets; None: it has none.

        Brokers before 5.0 answer 0 for groups without offsets while a queue is young, whatever is
        asked. So where a 0 is among the answers, what the broker stores decides.
        """
        answers = await limited(
            lambda queue: self._calls.committed(group, queue, is_zero_if_young=False), queues
        )
        if 0 in answers:
            stored = await self._stored_offsets(broker_name)
            if stored is not None:
                answers = [
                    stored.get(f"{queue.topic}@{group}", {}).get(queue.queue_id, NO_OFFSET)
                    if answer == 0
                    else answer
                    for queue, answer in zip(queues, answers, strict=True)
                ]
        return list(map(known, answers))

    async def _stored_offsets(self, broker_name: str) -> dict[str, dict[int, int]] | None:
        """All groups' offsets as slaves ask for them; None: we may not."""
        address = await self._client.broker_address(broker_name)
        request = new_request(RequestCode.GET_ALL_CONSUMER_OFFSET, {})
        try:
            answer = await self._client.call(address, request)
        except BrokerError as error:
            log.warning("stored_offsets_unknown broker=%s reason=%s", broker_name, error)
            return None
        return decode_body(ConsumerOffsetTable, answer.body).offsets


async def limited(
    work: Callable[[MessageQueue], Awaitable[T]], queues: Iterable[MessageQueue]
) -> list[T]:
    """One call per queue, a few at a time."""
    turns = asyncio.Semaphore(CALLS_MAX)

    async def in_turn(queue: MessageQueue) -> T:
        async with turns:
            return await work(queue)

    return await asyncio.gather(*map(in_turn, queues))


def known(offset: int) -> int | None:
    return None if offset < 0 else offset


def place_name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
