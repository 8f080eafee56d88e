"""How far groups have come (208, 317, 303)."""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from emberq.broker.groups import Groups
from emberq.broker.handlers.topic_stats import StoredQueues
from emberq.broker.members import Consumers
from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.topics import Topics
from emberq.errors import RequestRejected
from emberq.model.queue import MessageQueue
from emberq.model.topic import QUEUE_COUNT_MAX, TopicConfig
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.statistics import (
    BrokerConsumeStats,
    ConsumeProgress,
    ConsumeStats,
    ConsumeTimeSpans,
    QueueTimeSpan,
    time_span_text,
)
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.headers.statistics import (
    GetBrokerConsumeStats,
    GetConsumeStats,
    QueryConsumeTimeSpan,
)
from emberq.remoting.registry import HandlerRegistry, Request

TOPIC_SEPARATOR = ";"


class GroupOffsets(Protocol):
    def query(self, group: str, topic: str, queue_id: int) -> int: ...
    def pulled(self, group: str, topic: str, queue_id: int) -> int: ...
    def topics_of(self, group: str) -> set[str]: ...


class _Place(NamedTuple):
    """Where a group is in a queue; offsets are -1 where there is none."""

    queue: MessageQueue
    committed: int
    pulled: int


class ConsumeStatsHandlers:
    def __init__(
        self,
        *,
        broker_name: str,
        broker_address: str,
        topics: Topics,
        groups: Groups,
        consumers: Consumers,
        offsets: GroupOffsets,
        store: StoredQueues,
        statistics: BrokerStatistics,
        now_ms: Callable[[], int],
    ) -> None:
        self._broker_name = broker_name
        self._broker_address = broker_address
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._store = store
        self._statistics = statistics
        self._now_ms = now_ms

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add_typed(GetConsumeStats, self.get_of_group)
        registry.add_typed(GetBrokerConsumeStats, self.get_of_broker)
        registry.add_typed(QueryConsumeTimeSpan, self.get_time_spans)

    async def get_of_group(self, request: Request[GetConsumeStats]) -> Command:
        header = request.header
        group = header.consumer_group
        listed = [name for name in (header.topic_list or "").split(TOPIC_SEPARATOR) if name]
        if listed:
            names: Iterable[str] = dict.fromkeys(listed)
        elif header.topic and header.topic.strip():
            names = self._subscribed(group, [header.topic])
        else:
            names = self._subscribed(group, sorted(self._offsets.topics_of(group)))
        topics = [topic for topic in map(self._topics.get, names) if topic is not None]
        places = [
            place
            for topic in topics
            for place in self._places(group, topic, topic.read_queue_count)
        ]
        stats = ConsumeStats(
            queues=await asyncio.to_thread(self._progress, places),
            consume_tps=sum((self._statistics.get_tps(group, topic.name) for topic in topics), 0.0),
        )
        return answer(request.command, body=encode_body(stats))

    async def get_of_broker(self, request: Request[GetBrokerConsumeStats]) -> Command:
        groups: list[dict[str, list[ConsumeStats]]] = []
        lag = in_flight = 0
        for group in list(self._groups.all()):
            of_group = []
            for topic in self._topics_of(group, only_ordered=request.header.is_ordered):
                places = self._places(group, topic, topic.write_queue_count)
                stats = ConsumeStats(
                    queues=await asyncio.to_thread(self._progress, places),
                    consume_tps=self._statistics.get_tps(group, topic.name),
                )
                of_group.append(stats)
                for progress in stats.queues.values():
                    lag += progress.broker_offset - progress.consumer_offset
                    in_flight += progress.pull_offset - progress.consumer_offset
            groups.append({group: of_group})
        body = BrokerConsumeStats(
            broker_address=self._broker_address,
            groups=groups,
            total_lag=lag,
            total_in_flight=in_flight,
        )
        # With many groups this takes tens of milliseconds.
        return answer(request.command, body=await asyncio.to_thread(encode_body, body))

    async def get_time_spans(self, request: Request[QueryConsumeTimeSpan]) -> Command:
        header = request.header
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        places = self._places(header.group or "", topic, topic.write_queue_count)
        spans = await asyncio.to_thread(lambda: [self._time_span(place) for place in places])
        return answer(request.command, body=encode_body(ConsumeTimeSpans(queues=spans)))

    def _topics_of(self, group: str, *, only_ordered: bool) -> list[TopicConfig]:
        names = self._subscribed(group, sorted(self._offsets.topics_of(group)))
        topics = [topic for topic in map(self._topics.get, names) if topic is not None]
        return [topic for topic in topics if topic.is_ordered or not only_ordered]

    def _subscribed(self, group: str, names: Iterable[str]) -> list[str]:
        """A group that is online and subscribes to something has left all other topics."""
        online = self._consumers.get(group)
        if online is None or not online.subscriptions:
            return list(names)
        return [name for name in names if self._consumers.subscription(group, name) is not None]

    def _places(self, group: str, topic: TopicConfig, queue_count: int) -> list[_Place]:
        return [
            _Place(
                MessageQueue(self._broker_name, queue_id, topic.name),
                self._offsets.query(group, topic.name, queue_id),
                self._offsets.pulled(group, topic.name, queue_id),
            )
            for queue_id in range(min(queue_count, QUEUE_COUNT_MAX))
        ]

    def _progress(self, places: list[_Place]) -> dict[MessageQueue, ConsumeProgress]:
        """In a thread: store times may have to be read from the disk."""
        progress = {}
        for queue, committed, pulled in places:
            last_ms = -1
            if committed > 0:
                last_ms = self._store.stored_at_ms(queue.topic, queue.queue_id, committed - 1)
            progress[queue] = ConsumeProgress(
                broker_offset=self._store.max_offset(queue.topic, queue.queue_id),
                consumer_offset=max(0, committed),
                pull_offset=max(0, committed, pulled),
                last_consumed_at_ms=max(0, last_ms),
            )
        return progress

    def _time_span(self, place: _Place) -> QueueTimeSpan:
        """In a thread. Without an offset a group is taken to be at the queue's beginning."""
        topic, queue_id = place.queue.topic, place.queue.queue_id
        oldest_ms = self._store.earliest_time_ms(topic, queue_id)
        offset_max = self._store.max_offset(topic, queue_id)
        newest_ms = self._store.stored_at_ms(topic, queue_id, offset_max - 1)
        consumed_ms = oldest_ms
        if place.committed > 0:
            consumed_ms = self._store.stored_at_ms(topic, queue_id, place.committed - 1)
        delay_ms = 0
        next_offset = max(place.committed, self._store.min_offset(topic, queue_id))
        if next_offset < offset_max:
            next_ms = self._store.stored_at_ms(topic, queue_id, next_offset)
            delay_ms = self._now_ms() - next_ms
        return QueueTimeSpan(
            queue=place.queue,
            oldest_at_ms=oldest_ms,
            oldest_at_text=time_span_text(oldest_ms),
            newest_at_ms=newest_ms,
            newest_at_text=time_span_text(newest_ms),
            consumed_at_ms=consumed_ms,
            consumed_at_text=time_span_text(consumed_ms),
            delay_ms=delay_ms,
        )
