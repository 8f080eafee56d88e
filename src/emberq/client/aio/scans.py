"""Reading whole queues: ranges of offsets, many queues at once, no members that share them out.

With EmberQ's brokers by the requests of docs/formats/scan.md; with official ones by official
requests, which bring fewer messages at a time.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

from emberq.client.aio.client import Client
from emberq.client.aio.official_scans import OfficialScans, known, limited, place_name
from emberq.client.aio.queue_calls import QueueCalls
from emberq.client.core.scanned import QueueHead, ScanFilter, ScannedPart, StoreHint
from emberq.errors import (
    BrokerError,
    BrokerNotFound,
    EmberqError,
    OffsetOutOfRange,
    SystemBusy,
    TopicNotFound,
)
from emberq.model.queue import MessageQueue
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.groups import GroupNames
from emberq.protocol.bodies.scans import (
    HEADS_TOPICS_MAX,
    CommitRequest,
    Heads,
    HeadsQuery,
    OffsetsByTopic,
    PinnedStarts,
    PinRequest,
)
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command
from emberq.protocol.fastjson_writer import Dialect
from emberq.protocol.header_fields import Header, from_fields
from emberq.protocol.headers.scans import (
    ScanCommit,
    ScanEntries,
    ScanHeads,
    ScanPin,
    ScanPull,
    ScanResponse,
)
from emberq.protocol.headers.topics import QueryTopicConsumeByWho

log = logging.getLogger(__name__)

PULL_BYTES = 1024 * 1024


class Scans:
    """Queues and groups are given as they are on the wire."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._calls = QueueCalls(client)
        self._official = OfficialScans(client)
        self._official_names: set[str] = set()  # of brokers
        self.stores: dict[str, StoreHint] = {}  # by broker name, of those that said so

    async def queues(self, topic: str, *, is_fresh: bool = True) -> list[MessageQueue]:
        """All queues that can be read. Raises TopicNotFound, NoNameServer."""
        try:
            if is_fresh:
                await self._client.routes.refresh(topic)
            return await self._client.subscribe_queues(topic)
        except TopicNotFound:
            self._client.forget(topic)
            raise

    async def heads(
        self,
        queues: Collection[MessageQueue],
        group: str | None = None,
        *,
        lows_age_max_s: float = 0.0,
    ) -> dict[MessageQueue, QueueHead]:
        """One request per broker; queues that are gone are left out. Of official brokers one or two
        per queue: first offsets may be as old as is said."""
        for queue in queues:  # of topics that were forgotten, whose brokers may be back
            if not self._client.routes.addresses_of(queue.broker_name):
                self._client.watch(queue.topic)
        parts = await asyncio.gather(
            *(self._heads_at(name, own, group, lows_age_max_s) for name, own in _by_broker(queues))
        )
        return {queue: head for part in parts for queue, head in part.items()}

    def requests_of_heads(self, queues: Iterable[MessageQueue]) -> int:
        """How many requests the broker with the most of them gets for the ends of queues."""
        counts = Counter(
            queue.broker_name for queue in queues if queue.broker_name in self._official_names
        )
        return max(counts.values(), default=1)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        end_offset: int,
        *,
        bytes_max: int = PULL_BYTES,
        wanted: ScanFilter | None = None,
        timeout_s: float | None = None,
    ) -> ScannedPart:
        """Records from an offset on; a part without any says where to go on.

        Raises:
            OffsetOutOfRange, BrokerNotFound, BrokerError, RemotingError
        """
        wanted = wanted or ScanFilter()
        header = ScanPull(
            topic=queue.topic,
            queue_id=queue.queue_id,
            offset=offset,
            end_offset=end_offset,
            max_bytes=bytes_max,
            subscription=wanted.expression,
            expression_type=wanted.expression_type,
        )
        answer = await self._scan(queue, header, timeout_s)
        if answer is None:
            return await self._official.pull(queue, offset, wanted, timeout_s)
        return _part(answer, queue, offset)

    async def entries(
        self, queue: MessageQueue, offset: int, count: int, *, timeout_s: float | None = None
    ) -> ScannedPart | None:
        """Entries of 20 bytes from an offset on; None: an official broker, pull instead.

        Raises:
            OffsetOutOfRange, BrokerNotFound, BrokerError, RemotingError
        """
        header = ScanEntries(
            topic=queue.topic, queue_id=queue.queue_id, offset=offset, max_count=count
        )
        answer = await self._scan(queue, header, timeout_s)
        return None if answer is None else _part(answer, queue, offset)

    async def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """The first messages stored at or after a time; behind the last one if there are none."""
        heads = await self.heads(times_ms)  # which also tells official brokers from ours

        async def find(queue: MessageQueue) -> int:
            head = heads.get(queue)
            if head is None or queue.broker_name not in self._official_names:
                return await self._calls.offset_by_time(queue, times_ms[queue])
            return await self._official.offset_by_time(queue, times_ms[queue], head)

        found = await limited(find, times_ms)
        return dict(zip(times_ms, found, strict=True))

    async def earliest_times_ms(
        self, queues: Collection[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        """When the first messages were stored; None: the queue is empty."""
        found = await limited(self._calls.earliest_time_ms, queues)
        return {queue: known(time_ms) for queue, time_ms in zip(queues, found, strict=True)}

    async def pin(self, group: str, starts: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Write down where a query starts, unless that was done before; returns what counts.

        Raises:
            NoPermission: somebody consumes with the group.
        """
        parts = await asyncio.gather(
            *(self._pin_at(name, group, own, starts) for name, own in _by_broker(starts))
        )
        return {queue: start for part in parts for queue, start in part.items()}

    async def unpin(self, group: str, queues: Collection[MessageQueue]) -> None:
        """Forget the starts of these queues' topics."""
        for name, own in _by_broker(queues):
            request = PinRequest(
                group=group, starts={queue.topic: {} for queue in own}, is_cleared=True
            )
            if await self._ask(name, ScanPin(), request) is None:
                await self._official.unpin(group, own)

    async def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Store a group's offsets, which only move forward; a group that does not exist is made.

        A broker that is away or refuses keeps no other from storing its own, and topics that are
        gone are passed over.

        Raises:
            NoPermission: somebody consumes with the group.
            BrokerNotFound: several brokers are away or have failed; of one, what it met.
            NoNameServer, BrokerError, RemotingError
        """
        there = await self._with_brokers(offsets)
        by_broker = _by_broker(there)
        met = await asyncio.gather(
            *(self._failure_at(name, group, own, offsets) for name, own in by_broker)
        )
        names = [name for name, _ in by_broker]
        failures = {name: error for name, error in zip(names, met, strict=True) if error}
        if failures:
            raise _together(group, failures)

    async def groups(self, broker_name: str, topic: str) -> set[str]:
        """Groups that have offsets in a topic."""
        header = QueryTopicConsumeByWho(topic=topic)
        answer = await self._client.call_broker(broker_name, header)
        return set(decode_body(GroupNames, answer.body).groups)

    async def _with_brokers(self, queues: Collection[MessageQueue]) -> list[MessageQueue]:
        """Queues but those of topics that are gone. Routes are looked up where a broker is not
        known yet: who only commits has asked for none."""
        addresses_of = self._client.routes.addresses_of
        topics = {queue.topic for queue in queues if not addresses_of(queue.broker_name)}
        gone = set()
        for topic in sorted(topics):
            try:
                await self._client.routes.refresh(topic)
            except TopicNotFound:
                gone.add(topic)
        if gone:
            log.info("topics_not_committed without_route=%s", ",".join(sorted(gone)))
        return [
            queue for queue in queues if queue.topic not in gone or addresses_of(queue.broker_name)
        ]

    async def _failure_at(
        self,
        broker_name: str,
        group: str,
        queues: list[MessageQueue],
        offsets: Mapping[MessageQueue, int],
    ) -> EmberqError | None:
        """What a commit at one broker met; None: it is done."""
        own = {queue: offsets[queue] for queue in queues}
        request = CommitRequest(group=group, offsets=_by_topic(queues, offsets))
        try:
            if await self._ask(broker_name, ScanCommit(), request) is None:
                await self._official.commit(broker_name, group, own)
                await self._official.show(group, [broker_name])
        except EmberqError as error:
            return error
        return None

    # EmberQ's brokers

    async def _ask(self, broker_name: str, header: Header, body: Struct) -> Command | None:
        """None: an official broker."""
        if broker_name in self._official_names:
            return None
        content = encode_body(body, Dialect.STRICT)
        try:
            return await self._client.call_broker(broker_name, header, content)
        except BrokerError as error:
            self._note_official(error, broker_name)
            return None

    async def _scan(
        self, queue: MessageQueue, header: Header, timeout_s: float | None
    ) -> Command | None:
        if queue.broker_name in self._official_names:
            return None
        try:
            return await self._client.call_broker(
                queue.broker_name,
                header,
                timeout_s=timeout_s,
                accepts=(ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED),
            )
        except BrokerError as error:
            self._note_official(error, queue.broker_name)
            return None

    def _note_official(self, error: BrokerError, broker_name: str) -> None:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise error
        self._official_names.add(broker_name)

    async def _heads_at(
        self,
        broker_name: str,
        queues: list[MessageQueue],
        group: str | None,
        lows_age_max_s: float,
    ) -> dict[MessageQueue, QueueHead]:
        topics = list(dict.fromkeys(queue.topic for queue in queues))
        wanted, heads = set(queues), dict[MessageQueue, QueueHead]()
        for first in range(0, len(topics), HEADS_TOPICS_MAX):
            asked = HeadsQuery(topics=topics[first : first + HEADS_TOPICS_MAX], group=group)
            answer = await self._ask(broker_name, ScanHeads(), asked)
            if answer is None:
                return await self._official.heads(broker_name, queues, group, lows_age_max_s)
            found = decode_body(Heads, answer.body)
            self.stores[broker_name] = StoreHint(found.store_root, found.store_id)
            heads |= {
                queue: QueueHead(low, high, known(committed), known(start))
                for topic, rows in found.queues.items()
                for queue_id, low, high, committed, start in rows
                if (queue := MessageQueue(broker_name, queue_id, topic)) in wanted
            }
        return heads

    async def _pin_at(
        self,
        broker_name: str,
        group: str,
        queues: list[MessageQueue],
        starts: Mapping[MessageQueue, int],
    ) -> dict[MessageQueue, int]:
        request = PinRequest(group=group, starts=_by_topic(queues, starts))
        answer = await self._ask(broker_name, ScanPin(), request)
        if answer is None:
            own = {queue: starts[queue] for queue in queues}
            return await self._official.pin(broker_name, group, own)
        pinned = decode_body(PinnedStarts, answer.body).starts
        return {queue: pinned[queue.topic][queue.queue_id] for queue in queues}


def _together(group: str, failures: Mapping[str, EmberqError]) -> EmberqError:
    """Failures at some brokers as one. What no repetition betters comes first."""
    for error in failures.values():
        is_final = isinstance(error, BrokerError) and not isinstance(error, SystemBusy)
        if is_final or len(failures) == 1:
            return error
    met = "; ".join(f"{name}: {error}" for name, error in failures.items())
    return BrokerNotFound(f"offsets of {group} are not stored at {len(failures)} brokers: {met}")


def _part(answer: Command, queue: MessageQueue, offset: int) -> ScannedPart:
    found = from_fields(ScanResponse, answer.fields or {})
    if answer.code != ResponseCode.SUCCESS:
        raise OffsetOutOfRange(place_name(queue), offset, found.min_offset, found.max_offset)
    return ScannedPart(answer.body, found.next_offset, found.min_offset, found.max_offset)


def _by_broker(queues: Iterable[MessageQueue]) -> list[tuple[str, list[MessageQueue]]]:
    name_of = attrgetter("broker_name")
    return [(name, list(own)) for name, own in groupby(sorted(queues, key=name_of), name_of)]


def _by_topic(
    queues: Iterable[MessageQueue], offsets: Mapping[MessageQueue, int]
) -> OffsetsByTopic:
    table: OffsetsByTopic = {}
    for queue in queues:
        table.setdefault(queue.topic, {})[queue.queue_id] = offsets[queue]
    return table
