"""Topics as administrators see them: create, change, delete, list (17, 18, 215, 21, 351, 305)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from msgspec.structs import asdict, replace

from emberq.broker.attributes import (
    ADD,
    MESSAGE_TYPE,
    MIXED,
    TOPIC_ATTRIBUTES,
    changed_attributes,
    not_supported,
    parse_changes,
)
from emberq.broker.config import BrokerConfig
from emberq.broker.handlers.paging import is_version, page_of
from emberq.broker.persistence import Persistence
from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.topics import Topics, topic_name_trouble
from emberq.errors import RequestRejected, StoreError
from emberq.model.data_version import DataVersion
from emberq.model.system_topics import RETRY_PREFIX, SYSTEM_TOPICS
from emberq.model.topic import QUEUE_COUNT_MAX, TopicConfig, TopicFilterType
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.routes import TopicNames
from emberq.protocol.bodies.topics import TopicList, TopicTable, TopicWithMapping
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.headers.topics import (
    GetAllTopicConfig,
    GetTopicConfig,
    UpdateAndCreateTopic,
)
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry, Request

log = logging.getLogger(__name__)

# Official brokers say so after a change that went well.
CHANGED_REMARK = "not set any response code"


class DeletableQueues(Protocol):
    def delete_topics(self, names: Iterable[str]) -> None:
        """May wait for the disk."""


class TopicOffsets(Protocol):
    def remove_topic(self, topic: str) -> None: ...
    def groups_of(self, topic: str) -> set[str]: ...


class AdminTopicHandlers:
    def __init__(
        self,
        *,
        topics: Topics,
        offsets: TopicOffsets,
        store: DeletableQueues,
        statistics: BrokerStatistics,
        persistence: Persistence,
        registered: Callable[[], Awaitable[None]],
        config: Callable[[], BrokerConfig],
        started_at_ms: int,
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._statistics = statistics
        self._persistence = persistence
        self._registered = registered
        self._config = config
        # Static topics are not offered: the table of their mappings never changes.
        self._mapping_version = DataVersion(timestamp_ms=started_at_ms)

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add_typed(UpdateAndCreateTopic, self.put)
        registry.add(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, self.put_list)
        registry.add(RequestCode.DELETE_TOPIC_IN_BROKER, self.delete)
        registry.add_typed(GetAllTopicConfig, self.get_all)
        registry.add_typed(GetTopicConfig, self.get)
        registry.add(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, self.get_system)

    async def put(self, request: Request[UpdateAndCreateTopic]) -> Command:
        header = request.header
        self._check_name(header.topic)
        if header.filter_type not in TopicFilterType.__members__:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"topicFilterType = [{header.filter_type}] value invalid",
            )
        topic = TopicConfig(
            name=header.topic,
            read_queue_count=header.read_queue_count,
            write_queue_count=header.write_queue_count,
            permission=header.permission,
            filter_type=TopicFilterType[header.filter_type],
            system_flag=header.system_flag or 0,
            is_ordered=header.is_ordered,
            attributes=parse_changes(header.attributes or ""),
        )
        return await self._put_all(request.command, request.connection, [topic])

    async def put_list(self, command: Command, connection: Connection) -> Command:
        topics = decode_body(TopicList, command.body).topics
        if topics is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "topicConfigList is missing")
        for topic in topics:
            self._check_name(topic.name)
        return await self._put_all(command, connection, topics)

    async def delete(self, command: Command, connection: Connection) -> Command:
        """Official brokers answer success for a topic that is not there."""
        name = (command.fields or {}).get("topic", "")
        if not name.strip():
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        self._check_is_users(name)
        names = [name, *self._pop_retry_topics(name)]
        log.info("topic_delete peer=%s topics=%s", connection.peer, ",".join(names))
        for gone in names:
            self._topics.remove(gone)
            self._offsets.remove_topic(gone)
        if self._config().auto_delete_unused_stats:
            self._statistics.forget_topics(names)
        await self._save()
        try:
            await asyncio.to_thread(self._store.delete_topics, names)
        except (OSError, StoreError) as error:
            log.error("queues_not_deleted topics=%s reason=%s", names, error)  # noqa: TRY400 - not our bug
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"the queues could not be deleted: {error}"
            ) from None
        return answer(command)

    def get_all(self, request: Request[GetAllTopicConfig]) -> Command:
        header = request.header
        topics = page_of(
            self._topics.all(),
            first=header.start_index,
            count_max=header.max_topic_count,
            is_same_table=is_version(header.data_version, self._topics.version),
        )
        body = TopicTable(
            data_version=self._topics.version,
            mapping_data_version=self._mapping_version,
            topics=topics,
            mapping_details={},
            mappings={},
        )
        fields = {"totalTopicNum": str(len(self._topics.all()))}
        return answer(request.command, fields=fields, body=encode_body(body))

    def get(self, request: Request[GetTopicConfig]) -> Command:
        topic = self._topics.get(request.header.topic)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic in this broker. topic: {request.header.topic}",
            )
        return answer(request.command, body=encode_body(TopicWithMapping(**asdict(topic))))

    def get_system(self, command: Command, _: Connection) -> Command:
        own = {name for name in self._topics.names() if self._topics.is_system(name)}
        return answer(command, body=encode_body(TopicNames(topics=sorted(own | SYSTEM_TOPICS))))

    async def _put_all(
        self, command: Command, connection: Connection, changes: list[TopicConfig]
    ) -> Command:
        """All of them or none."""
        topics = [self._changed(change) for change in changes]
        for topic in topics:
            if self._topics.put(topic):
                log.info("topic_put peer=%s topic=%s", connection.peer, topic.name)
        await self._save()
        await self._registered()  # who asked for the topic will ask for its route next
        return answer(command, remark=CHANGED_REMARK)

    def _changed(self, change: TopicConfig) -> TopicConfig:
        """What a topic will be: the attributes of the request are changes of those it has."""
        if max(change.read_queue_count, change.write_queue_count) > QUEUE_COUNT_MAX:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER, f"a topic has at most {QUEUE_COUNT_MAX} queues"
            )
        if change.attributes.get(ADD + MESSAGE_TYPE) == MIXED:
            raise not_supported("MIXED message type")
        known = self._topics.get(change.name)
        current = None if known is None else known.attributes
        attributes = changed_attributes(TOPIC_ATTRIBUTES, current, change.attributes)
        return replace(change, attributes=attributes)

    def _check_name(self, name: str) -> None:
        trouble = topic_name_trouble(name)
        if trouble is not None:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, trouble)
        self._check_is_users(name)

    def _check_is_users(self, name: str) -> None:
        if self._topics.is_system(name):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"The topic[{name}] is conflict with system topic.",
            )

    def _pop_retry_topics(self, name: str) -> list[str]:
        """Retries of pop consumers are kept per topic and go with it."""
        return [
            retry
            for group in sorted(self._offsets.groups_of(name))
            for retry in (f"{RETRY_PREFIX}{group}+{name}", f"{RETRY_PREFIX}{group}_{name}")
            if self._topics.get(retry) is not None
        ]

    async def _save(self) -> None:
        try:
            await self._persistence.save_now("topics")
        except OSError as error:
            log.error("topics_not_stored reason=%s", error)  # noqa: TRY400 - not our bug
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"the topics could not be stored: {error.strerror or error}",
            ) from None
