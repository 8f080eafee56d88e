"""What a topic's queues hold (202), and any counter of the broker (315)."""

import asyncio
from typing import Protocol

from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.topics import Topics
from emberq.errors import RequestRejected
from emberq.model.queue import MessageQueue
from emberq.model.topic import QUEUE_COUNT_MAX, TopicConfig
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.statistics import QueueBounds, TopicStats
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.headers.statistics import ViewBrokerStatsData
from emberq.protocol.headers.topics import GetTopicStatsInfo
from emberq.remoting.registry import HandlerRegistry, Request


class StoredQueues(Protocol):
    """What statistics ask of the store; all of it may be called in a thread."""

    def min_offset(self, topic: str, queue_id: int) -> int: ...
    def max_offset(self, topic: str, queue_id: int) -> int: ...
    def stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int: ...
    def earliest_time_ms(self, topic: str, queue_id: int) -> int: ...


class TopicStatsHandlers:
    def __init__(
        self,
        *,
        broker_name: str,
        topics: Topics,
        store: StoredQueues,
        statistics: BrokerStatistics,
    ) -> None:
        self._broker_name = broker_name
        self._topics = topics
        self._store = store
        self._statistics = statistics

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add_typed(GetTopicStatsInfo, self.get_topic)
        registry.add_typed(ViewBrokerStatsData, self.view)

    async def get_topic(self, request: Request[GetTopicStatsInfo]) -> Command:
        topic = self._topics.get(request.header.topic)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.header.topic}] not exist"
            )
        body = TopicStats(
            queues=await asyncio.to_thread(self._bounds, topic),
            put_tps=self._statistics.put_tps(topic.name),
        )
        return answer(request.command, body=encode_body(body))

    def view(self, request: Request[ViewBrokerStatsData]) -> Command:
        name = request.header.statistic_name or "null"
        key = request.header.statistic_key or "null"
        figures = self._statistics.view(name, key)
        if figures is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist"
            )
        return answer(request.command, body=encode_body(figures))

    def _bounds(self, topic: TopicConfig) -> dict[MessageQueue, QueueBounds]:
        bounds = {}
        queue_count = max(topic.read_queue_count, topic.write_queue_count)
        for queue_id in range(min(queue_count, QUEUE_COUNT_MAX)):
            offset_max = self._store.max_offset(topic.name, queue_id)
            last_ms = 0
            if offset_max > 0:
                last_ms = self._store.stored_at_ms(topic.name, queue_id, offset_max - 1)
            queue = MessageQueue(self._broker_name, queue_id, topic.name)
            bounds[queue] = QueueBounds(
                offset_min=max(0, self._store.min_offset(topic.name, queue_id)),
                offset_max=offset_max,
                last_stored_at_ms=last_ms,
            )
        return bounds
