"""What groups and topics have to do with each other (300, 343, 345), and offsets compared (308)
or copied (314) between groups."""

from collections.abc import Callable
from typing import Protocol

from emberq.broker.members import Consumers
from emberq.broker.topics import Topics
from emberq.errors import RequestRejected
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.groups import GroupNames, GroupSubscription
from emberq.protocol.bodies.offsets import CorrectionOffsets
from emberq.protocol.bodies.routes import TopicNames
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.header_fields import from_fields
from emberq.protocol.headers.offsets import CloneGroupOffset, QueryCorrectionOffset
from emberq.protocol.headers.subscription_groups import (
    QuerySubscriptionByConsumer,
    QueryTopicsByConsumer,
)
from emberq.protocol.headers.topics import QueryTopicConsumeByWho
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry, Request

# "Leave this queue as it is."
NO_CORRECTION = (1 << 63) - 1


class CommittedOffsets(Protocol):
    """Of all groups."""

    def of(self, group: str, topic: str) -> dict[int, int]: ...

    def topics_of(self, group: str) -> set[str]: ...

    def groups_of(self, topic: str) -> set[str]: ...

    def remove_group(self, group: str) -> None: ...

    def clone(self, source: str, target: str, topic: str) -> None: ...


class GroupQueryHandlers:
    def __init__(
        self,
        *,
        consumers: Consumers,
        offsets: CommittedOffsets,
        topics: Topics,
        min_offset: Callable[[str, int], int],
        broker_address: str,
    ) -> None:
        self._consumers = consumers
        self._offsets = offsets
        self._topics = topics
        self._min_offset = min_offset
        self._broker_address = broker_address

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add_typed(QueryTopicConsumeByWho, self.list_groups)
        registry.add_typed(QueryTopicsByConsumer, self.list_topics)
        registry.add_typed(QuerySubscriptionByConsumer, self.get_subscription)
        registry.add(RequestCode.QUERY_CORRECTION_OFFSET, self.correct_offsets)
        registry.add_typed(CloneGroupOffset, self.clone_offsets)

    def list_groups(self, request: Request[QueryTopicConsumeByWho]) -> Command:
        """Who subscribes to a topic now, or once did and committed."""
        topic = request.header.topic
        groups = self._consumers.groups_subscribing(topic) | self._offsets.groups_of(topic)
        return answer(request.command, body=encode_body(GroupNames(groups=sorted(groups))))

    def list_topics(self, request: Request[QueryTopicsByConsumer]) -> Command:
        topics = sorted(self._offsets.topics_of(request.header.group))
        body = TopicNames(broker_address=self._broker_address, topics=topics)
        return answer(request.command, body=encode_body(body))

    def get_subscription(self, request: Request[QuerySubscriptionByConsumer]) -> Command:
        header = request.header
        if header.topic is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "a topic is missing")
        found = self._consumers.subscription(header.group, header.topic)
        body = GroupSubscription(group=header.group, subscription=found, topic=header.topic)
        return answer(request.command, body=encode_body(body))

    def correct_offsets(self, command: Command, connection: Connection) -> Command:
        """The smallest offsets of all groups, but where the compared one, if any, is behind them.

        Groups to be left out are not only left out: their offsets are deleted, as official
        brokers do.
        """
        header = from_fields(QueryCorrectionOffset, {"compareGroup": "", **(command.fields or {})})
        for group in (header.filter_groups or "").split(","):
            if group.strip():
                self._offsets.remove_group(group)
        smallest: dict[int, int] = {}
        for group in self._offsets.groups_of(header.topic):
            for queue_id, offset in self._offsets.of(group, header.topic).items():
                if offset >= self._min_offset(header.topic, queue_id):
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        for queue_id, offset in self._offsets.of(header.compare_group, header.topic).items():
            if smallest.get(queue_id, NO_CORRECTION) > offset:
                smallest[queue_id] = NO_CORRECTION
        return answer(command, body=encode_body(CorrectionOffsets(offsets=smallest)))

    def clone_offsets(self, request: Request[CloneGroupOffset]) -> Command:
        """Without a topic nothing is copied, as with official brokers."""
        header = request.header
        topic = header.topic
        if topic and self._topics.get(topic) is not None:
            group = self._consumers.get(header.source_group)
            is_unsubscribed = (
                not header.is_offline
                and group is not None
                and bool(group.subscriptions)
                and self._consumers.subscription(header.source_group, topic) is None
            )
            if not is_unsubscribed:
                self._offsets.clone(header.source_group, header.target_group, topic)
        return answer(request.command)
