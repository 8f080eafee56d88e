"""The half of scans for official brokers: the same answers by official requests, one per queue."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from emberq.client.aio.client import Client
from emberq.client.aio.queue_calls import NO_OFFSET, QueueCalls, firsts_and_others
from emberq.client.core.scanned import QueueHead, ScanFilter, ScannedPart
from emberq.client.core.sound_records import sound_records
from emberq.client.core.time_search import TimeSearch
from emberq.errors import (
    BrokerError,
    GroupNotFound,
    NoPermission,
    OffsetOutOfRange,
    RecordError,
    RemotingError,
    SystemBusy,
    TopicNotFound,
)
from emberq.model.group import GroupConfig
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import DEFAULT_TOPIC, SYSTEM_GROUP_PREFIX, retry_topic
from emberq.model.topic import READ_WRITE, TopicFilterType
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.groups import ConsumerIds
from emberq.protocol.bodies.offsets import ConsumerOffsetTable
from emberq.protocol.bodies.scans import group_in_use_remark
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import new_request
from emberq.protocol.fastjson_writer import Dialect
from emberq.protocol.header_fields import from_fields
from emberq.protocol.headers.groups import GetConsumerListByGroup
from emberq.protocol.headers.pull import PullMessage, PullMessageResponse
from emberq.protocol.headers.topics import UpdateAndCreateTopic
from emberq.record.decode import decode_record

log = logging.getLogger(__name__)

A = TypeVar("A")
T = TypeVar("T")

# Official brokers want a group with each pull; one with this prefix is made on first use, whatever
# the settings say, and is shown to nobody.
SCAN_GROUP = f"{SYSTEM_GROUP_PREFIX}EMBERQ_SCAN"
# Starts are the offsets of a second group.
START_GROUP_SUFFIX = "_SCAN_START"
PULL_COUNT = 32
CALLS_MAX = 16
# A broker is asked who consumes with a group before its first commit, and after so long again.
CONSUMERS_EVERY_S = 60.0
# Brokers and groups for which that is remembered; above it all are asked for again.
CHECKS_MAX = 10_000
# Queues whose first offsets are remembered; above it all are asked for again.
LOWS_MAX = 100_000
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
        self._unused_at_s: dict[tuple[str, str], float] = {}  # the same
        self._lows: dict[MessageQueue, tuple[int, float]] = {}  # and when they were asked for

    async def heads(
        self,
        broker_name: str,
        queues: Collection[MessageQueue],
        group: str | None,
        lows_age_max_s: float,
    ) -> dict[MessageQueue, QueueHead]:
        """Of queues of one broker."""
        lows = await self._first_offsets(queues, lows_age_max_s)
        highs = await limited(self._calls.max_offset, queues)
        committed: list[int | None] = [None] * len(queues)
        starts = committed
        if group is not None:
            committed = await self._offsets(broker_name, group, queues)
            starts = await self._offsets(broker_name, group + START_GROUP_SUFFIX, queues)
        found = zip(lows, highs, committed, starts, strict=True)
        return {queue: QueueHead(*head) for queue, head in zip(queues, found, strict=True)}

    async def _first_offsets(self, queues: Collection[MessageQueue], age_max_s: float) -> list[int]:
        asked_at_s = time.monotonic()
        lows = {
            queue: self._lows[queue][0]
            for queue in queues
            if queue in self._lows and asked_at_s - self._lows[queue][1] < age_max_s
        }
        unknown = [queue for queue in queues if queue not in lows]
        lows |= zip(unknown, await limited(self._calls.min_offset, unknown), strict=True)
        if len(self._lows) + len(unknown) > LOWS_MAX:
            self._lows.clear()
        self._lows |= {queue: (lows[queue], asked_at_s) for queue in unknown}
        return [lows[queue] for queue in queues]

    async def pull(
        self, queue: MessageQueue, offset: int, wanted: ScanFilter, timeout_s: float | None
    ) -> ScannedPart:
        """As EmberQ's brokers do, without messages that are damaged."""
        part = await self._pull(queue, offset, PULL_COUNT, wanted, timeout_s)
        content, damaged = sound_records(part.content, queue.queue_id, queue.topic)
        if damaged:
            log.error("messages_damaged queue=%s offsets=%s", place_name(queue), damaged)
            return replace(part, content=content, damaged=damaged)
        return part

    async def offset_by_time(self, queue: MessageQueue, time_ms: int, head: QueueHead) -> int:
        """The first message stored at or after a time, whatever the broker makes of times."""
        if head.min_offset >= head.max_offset:
            return head.max_offset
        guess = await self._calls.offset_by_time(queue, time_ms)
        search = TimeSearch(time_ms, head.min_offset, head.max_offset, guess)
        while (offset := search.next_offset) is not None:
            try:
                part = await self._pull(queue, offset, 1, ScanFilter(), None)
                record = decode_record(part.content, is_body_read=False) if part.content else None
            except OffsetOutOfRange as error:
                search.nothing(offset, error.min_offset, error.max_offset)
            except RecordError:  # as good as none
                search.nothing(offset, part.min_offset, part.max_offset)
            else:
                if record is None:
                    search.nothing(part.next_offset, part.min_offset, part.max_offset)
                else:
                    search.message(record.queue_offset, record.stored_at_ms)
        return search.found

    async def _pull(
        self,
        queue: MessageQueue,
        offset: int,
        count: int,
        wanted: ScanFilter,
        timeout_s: float | None,
    ) -> ScannedPart:
        header = PullMessage(
            consumer_group=SCAN_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_message_count=count,
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
        await self._check_unused(broker_name, group)
        start_group = group + START_GROUP_SUFFIX
        known_starts = await self._offsets(broker_name, start_group, starts)
        pinned = dict(zip(starts, known_starts, strict=True))
        fresh = {queue: starts[queue] for queue, start in pinned.items() if start is None}
        await self._store(start_group, fresh)
        return {queue: starts[queue] if start is None else start for queue, start in pinned.items()}

    async def unpin(self, group: str, queues: Iterable[MessageQueue]) -> None:
        await self._store(group + START_GROUP_SUFFIX, dict.fromkeys(queues, NO_OFFSET))

    async def commit(
        self, broker_name: str, group: str, offsets: Mapping[MessageQueue, int]
    ) -> None:
        """Store a group's offsets at one broker; those that are ahead already stay.

        Raises:
            NoPermission: somebody consumes with the group.
        """
        await self._check_unused(broker_name, group)
        stored = await limited(
            lambda queue: self._calls.committed(group, queue, is_zero_if_young=False), offsets
        )
        # Where it is 0, brokers before 5.0 may have none at all.
        ahead = {
            queue: offset
            for (queue, offset), there in zip(offsets.items(), stored, strict=True)
            if offset > there or offset == there == 0
        }
        await self._store(group, ahead)

    async def _check_unused(self, broker_name: str, group: str) -> None:
        """Whoever consumes with a group would skip what a query says that it has read."""
        place, now_s = (broker_name, group), time.monotonic()
        asked_at_s = self._unused_at_s.get(place)
        if asked_at_s is not None and now_s - asked_at_s < CONSUMERS_EVERY_S:
            return
        count = await self._consumers_online(broker_name, group)
        if count:
            remark = group_in_use_remark(group, count)
            raise NoPermission(ResponseCode.NO_PERMISSION, remark, broker_name)
        if len(self._unused_at_s) >= CHECKS_MAX:
            self._unused_at_s.clear()
        self._unused_at_s[place] = now_s

    async def _consumers_online(self, broker_name: str, group: str) -> int:
        header = GetConsumerListByGroup(consumer_group=group)
        try:
            answer = await self._client.call_broker(broker_name, header)
        except SystemBusy:
            raise
        except BrokerError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:  # so they say that there is nobody
                log.warning("consumers_unknown group=%s reason=%s", group, error)
            return 0
        return len(set(decode_body(ConsumerIds, answer.body).client_ids))

    async def _store(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        async def commit(queue: MessageQueue) -> None:
            try:
                await self._calls.commit(group, queue, offsets[queue], is_oneway=False)
            except BrokerError as error:  # brokers of ours pass such topics over
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                log.info("topic_gone group=%s queue=%s", group, place_name(queue))

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


async def limited(work: Callable[[A], Awaitable[T]], about: Iterable[A]) -> list[T]:
    """One call each, a few at a time."""
    turns = asyncio.Semaphore(CALLS_MAX)

    async def in_turn(one: A) -> T:
        async with turns:
            return await work(one)

    return await asyncio.gather(*map(in_turn, about))


def known(offset: int) -> int | None:
    return None if offset < 0 else offset


def place_name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
