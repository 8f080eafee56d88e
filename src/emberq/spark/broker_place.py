"""Queues at brokers, found through name servers and read through the client."""

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, TypeVar

from emberq.client.aio.official_scans import limited
from emberq.client.core.scanned import QueueHead, ScannedPart
from emberq.errors import BrokerError, ConfigError, DataLost, OffsetOutOfRange, TopicNotFound
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import is_system_topic
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.routes import TopicNames
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.record.decode import iter_records
from emberq.record.properties import find_stored_property
from emberq.record.string_hash import tag_code
from emberq.spark.links import WORTH_A_RETRY, Link, link_to
from emberq.spark.options import SourceOptions
from emberq.spark.planning import Partition, QueueSlice
from emberq.spark.positions import listed, names_trouble
from emberq.spark.pulling import after_loss, is_loss, pulled, pulled_in_turn
from emberq.store.consume_queue import ENTRY, ENTRY_SIZE

if TYPE_CHECKING:
    from emberq.spark.local_files import LocalFiles

log = logging.getLogger(__name__)

T = TypeVar("T")

# Entries whose sizes stand for all: looked at before ranges are cut by bytes. From an official
# broker so many records: it has no entries.
SAMPLED_ENTRIES = 256
SAMPLED_RECORDS = 32
# How often messages may expire while they are looked at.
SAMPLES_MAX = 3
ENTRIES_PER_CALL = 32_768
# A stream that looks for new messages asks official brokers so seldom where queues begin: only
# tasks meet what has expired.
LOWS_AGE_MAX_S = 60.0


class BrokerPlace:
    """With `wait_s` for a query that has found its brokers before, and waits for them so long."""

    def __init__(self, options: SourceOptions, wait_s: float = 0.0) -> None:
        self._options = options
        self._wait_s = wait_s
        self._link = link_to(options.connection)
        self._gone: set[str] = set()  # topics
        self._matched: set[str] = set()  # topics that a pattern found
        self._told: set[MessageQueue] = set()  # assigned, and not there

    @property
    def link(self) -> Link:
        return self._link

    def queues(self, known: Collection[MessageQueue] = ()) -> list[MessageQueue]:
        """Of those that are `known` none is missing because its broker is away."""
        return self._run(lambda: self._with_known(known))

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        return self._link.run(work, self._options.pull.retries, self._wait_s)

    def _run_in_task(self, work: Callable[[], Awaitable[T]]) -> T:
        """The planner has found the brokers."""
        return self._link.run(work, self._options.pull.retries, self._options.broker_wait_s)

    async def _with_known(self, known: Collection[MessageQueue]) -> list[MessageQueue]:
        names, fails_on_loss = {queue.broker_name for queue in known}, self._options.fails_on_loss
        found: list[MessageQueue] = []
        try:
            found = await self._queues()
        except TopicNotFound:
            if names:
                await self._link.check_present(names)
            if fails_on_loss or not names:
                raise
        missing = names - {queue.broker_name for queue in found}
        if missing and fails_on_loss:
            await self._link.check_present(missing)
        return self._assigned(found, known) if self._options.queues else found

    def _assigned(
        self, found: Collection[MessageQueue], known: Collection[MessageQueue]
    ) -> list[MessageQueue]:
        """Those that are asked for. Of which the query has read before, none is misspelt."""
        there, asked = set(found), self._options.queues
        unknown = {queue for queue in asked if queue not in there} - set(known)
        if unknown and self._options.fails_on_loss:
            raise ConfigError(names_trouble("assign", listed(unknown), there))
        if not unknown <= self._told:
            self._told |= unknown
            log.warning("names_unknown %s", names_trouble("assign", listed(unknown), there))
        return [queue for queue in asked if queue in there]

    async def _queues(self) -> list[MessageQueue]:
        options, link = self._options, self._link
        topics: Collection[str] = options.topics or {queue.topic for queue in options.queues}
        if options.pattern is not None:
            topics = await self._matching(options.pattern)
            for topic in self._matched.difference(topics):  # nobody would ask about it again
                link.client.forget(link.client.wrap(topic))
            self._matched = set(topics)

        async def find(topic: str) -> list[MessageQueue]:
            try:
                found = await link.scans.queues(link.client.wrap(topic))
            except TopicNotFound:
                if options.fails_on_loss or len(topics) == 1:
                    raise
                self._note_gone(topic)
                return []
            self._gone.discard(topic)
            return list(map(link.unwrapped, found))

        return [queue for own in await limited(find, topics) for queue in own]

    def know(self, queues: Collection[MessageQueue]) -> list[MessageQueue]:
        """Have the addresses of their brokers: a query that is started again plans the batch that
        was under way before it asks for anything else.

        Returns those whose topics are there; what the loss of the others means is for tasks to say.
        """
        self._run(lambda: limited(self._know, {each.topic: each for each in queues}.values()))
        return [queue for queue in queues if queue.topic not in self._gone]

    async def _know(self, queue: MessageQueue) -> None:
        try:
            await self._link.know(self._link.wrapped(queue))
        except TopicNotFound:
            self._note_gone(queue.topic)
        else:
            self._gone.discard(queue.topic)

    def _note_gone(self, topic: str) -> None:
        if topic not in self._gone:
            self._gone.add(topic)
            log.warning("topic_gone topic=%s", topic)

    async def _matching(self, pattern: str) -> list[str]:
        client = self._link.client
        request = new_request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
        answer = await client.name_servers.call(request, client.settings.api_timeout)
        matches = re.compile(pattern).fullmatch
        return sorted(
            topic
            for name in decode_body(TopicNames, answer.body).topics
            if not is_system_topic(name)
            if client.wrap(topic := client.unwrap(name)) == name and matches(topic)
        )

    def heads(
        self, queues: Collection[MessageQueue], group: str | None = None
    ) -> dict[MessageQueue, QueueHead]:
        link = self._link
        wire = [link.wrapped(queue) for queue in queues]
        wire_group = None if group is None else link.client.wrap(group)
        heads = self._run(lambda: link.scans.heads(wire, wire_group))
        return {link.unwrapped(queue): head for queue, head in heads.items()}

    def heads_there(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, QueueHead]:
        """Both ends of queues that a query has found before; first offsets may be some time old. If
        losses do not matter, those of a broker that is away are left out as long as another one is
        there."""
        if self._options.fails_on_loss:
            return self._heads_at_once(queues, wait_s=self._wait_s)
        try:
            return self._heads_at_once(queues)
        except WORTH_A_RETRY as error:
            log.warning("broker_away reason=%s", error)
        heads: dict[MessageQueue, QueueHead] = {}
        for name in {queue.broker_name for queue in queues}:
            own = [queue for queue in queues if queue.broker_name == name]
            with suppress(*WORTH_A_RETRY):
                heads |= self._heads_at_once(own, retries=0)
        return heads or self._heads_at_once(queues, wait_s=self._wait_s)

    def _heads_at_once(
        self, queues: Collection[MessageQueue], retries: int | None = None, wait_s: float = 0.0
    ) -> dict[MessageQueue, QueueHead]:
        link = self._link
        wire = [link.wrapped(queue) for queue in queues]
        tries = self._options.pull.retries if retries is None else retries
        heads = link.run(
            lambda: link.scans.heads(wire, lows_age_max_s=LOWS_AGE_MAX_S), tries, wait_s
        )
        return {link.unwrapped(queue): head for queue, head in heads.items()}

    def requests_of_heads(self, queues: Collection[MessageQueue]) -> int:
        """How many requests it costs one broker to say the ends of queues."""
        return self._link.scans.requests_of_heads(queues)

    def offsets_by_time(
        self,
        times_ms: Mapping[MessageQueue, int],
        *,
        is_end: bool = False,  # makes no difference: a broker has all between its ends
    ) -> dict[MessageQueue, int]:
        link = self._link
        wire = {link.wrapped(queue): time_ms for queue, time_ms in times_ms.items()}
        found = self._run(lambda: link.scans.offsets_by_time(wire))
        return {link.unwrapped(queue): offset for queue, offset in found.items()}

    def earliest_times_ms(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        link = self._link
        wire = [link.wrapped(queue) for queue in queues]
        found = self._run(lambda: link.scans.earliest_times_ms(wire))
        return {link.unwrapped(queue): time_ms for queue, time_ms in found.items()}

    def record_sizes(self, slices: Collection[QueueSlice]) -> list[float]:
        """Of the first messages of ranges that are left; 0: none is, which tasks will tell."""
        return self._run(lambda: limited(self._sampled_size, slices)) if slices else []

    async def _sampled_size(self, each: QueueSlice) -> float:
        if each.queue.topic in self._gone:
            return 0.0
        wire, first = self._link.wrapped(each.queue), each.first
        for _ in range(SAMPLES_MAX):
            try:
                sizes = await self._sampled_sizes(wire, first, each.stop)
            except (OffsetOutOfRange, TopicNotFound, BrokerError) as error:
                if not is_loss(error):
                    raise
                if not isinstance(error, OffsetOutOfRange) or error.min_offset <= first:
                    break
                first = error.min_offset
            else:
                return sum(sizes) / len(sizes) if sizes else 0.0
            if first >= each.stop:
                break
        return 0.0

    async def _sampled_sizes(self, wire: MessageQueue, first: int, stop: int) -> list[int]:
        """All of so many messages, however few come at a time, and none behind the range: the
        same whenever it is asked for."""
        sizes: list[int] = []
        offset, end = first, min(first + SAMPLED_ENTRIES, stop)
        while offset < end:
            part = await self._link.scans.entries(wire, offset, end - offset)
            if part is None:
                return await self._sampled_records(wire, first, min(first + SAMPLED_RECORDS, stop))
            if part.next_offset <= offset:
                break
            sizes += [size for _, size, _ in ENTRY.iter_unpack(part.content)]
            offset = part.next_offset
        return sizes[: end - first]

    async def _sampled_records(self, wire: MessageQueue, first: int, end: int) -> list[int]:
        sizes: list[int] = []
        offset = first
        while offset < end:
            part = await self._link.scans.pull(wire, offset, end)
            sizes += [
                record.size_bytes
                for record in iter_records(part.content)
                if offset <= record.queue_offset < end
            ]
            if part.next_offset <= offset:
                break
            offset = part.next_offset
        return sizes

    def contents(self, each: QueueSlice) -> Iterator[bytes]:
        for _, contents in self.contents_in_turn((each,)):
            yield from contents

    def contents_in_turn(
        self, partition: Partition
    ) -> Iterator[tuple[QueueSlice, Iterator[bytes]]]:
        if self._options.scan == "rpc":
            yield from pulled_in_turn(partition, self._options)
            return
        from emberq.spark.local_files import LocalFiles  # noqa: PLC0415 - few have the files

        with closing(LocalFiles(self._link, self._options)) as files:
            for each in partition:
                yield each, self._from_files(files, each)

    def _from_files(self, files: "LocalFiles", each: QueueSlice) -> Iterator[bytes]:
        rest = each
        try:
            for content, read_to in files.contents(each):
                rest = QueueSlice(each.queue, read_to, each.stop)
                yield content
        except TopicNotFound:
            log.debug("topic_gone topic=%s", each.queue.topic)  # pulls tell what that means
        if rest.count:
            yield from pulled(rest, self._options)

    def entries(self, each: QueueSlice) -> Iterator[tuple[int, bytes]]:
        """Raises DataLost if some are gone, and the options say that this matters."""
        wire, options = self._link.wrapped(each.queue), self._options
        offset = each.first
        while offset < each.stop:
            count = min(ENTRIES_PER_CALL, each.stop - offset)
            try:
                part = self._run_in_task(lambda at=offset, n=count: self._entries(wire, at, n))  # type: ignore[misc] # both are ints
            except (OffsetOutOfRange, TopicNotFound, BrokerError) as error:
                offset = after_loss(each, offset, error, options)
                continue
            if part is None:
                yield from self._entries_of_records(QueueSlice(each.queue, offset, each.stop))
                return
            if not part.content:
                missing = DataLost(f"there is no entry at {offset}")
                offset = after_loss(each, offset, missing, options)
                continue
            yield offset, part.content[: count * ENTRY_SIZE]
            offset = part.next_offset

    async def _entries(self, wire: MessageQueue, offset: int, count: int) -> ScannedPart | None:
        await self._link.know(wire)
        return await self._link.scans.entries(wire, offset, count)

    def _entries_of_records(self, each: QueueSlice) -> Iterator[tuple[int, bytes]]:
        """From an official broker: the whole records, of which only the heads are used."""
        for content in pulled(each, self._options):
            for record in iter_records(content, is_crc_checked=False):
                if each.first <= record.queue_offset < each.stop:
                    tag = find_stored_property(record.properties, b"TAGS") or b""
                    code = tag_code(tag.decode("utf-8", "replace"))
                    entry = ENTRY.pack(record.log_offset, record.size_bytes, code)
                    yield record.queue_offset, entry

    # Groups

    def groups(self) -> list[str]:
        """All that have offsets in one of the topics."""
        link = self._link
        queues = {(queue.topic, queue.broker_name) for queue in self.queues()}

        async def find() -> set[str]:
            names: set[str] = set()
            for topic, broker in queues:
                names |= await link.scans.groups(broker, link.client.wrap(topic))
            return names

        return sorted(map(link.client.unwrap, self._run(find)))

    def pin(self, group: str, starts: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        link = self._link
        wire = {link.wrapped(queue): offset for queue, offset in starts.items()}
        pinned = self._run(lambda: link.scans.pin(link.client.wrap(group), wire))
        return {link.unwrapped(queue): offset for queue, offset in pinned.items()}

    def unpin(self, group: str, queues: Collection[MessageQueue]) -> None:
        link = self._link
        wire = [link.wrapped(queue) for queue in queues]
        self._run(lambda: link.scans.unpin(link.client.wrap(group), wire))

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        link = self._link
        wire = {link.wrapped(queue): offset for queue, offset in offsets.items()}
        self._run(lambda: link.scans.commit(link.client.wrap(group), wire))
