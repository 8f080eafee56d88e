"""The topics of a broker: which exist, which are its own, how a send makes a new one."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from emberq.broker.config import BrokerConfig
from emberq.model.data_version import DataVersion
from emberq.model.system_topics import (
    BENCHMARK_TOPIC,
    DEFAULT_TOPIC,
    FORBIDDEN_TO_SEND,
    HALF_OPERATION_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    REVIVE_TOPIC_PREFIX,
    ROCKSDB_HALF_OPERATION_TOPIC,
    ROCKSDB_HALF_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYNC_MEMBER_TOPIC_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    TIMER_TOPIC,
    is_dead_letter_topic,
    is_retry_topic,
    reply_topic,
)
from emberq.model.topic import READ_WRITE, Permission, TopicConfig
from emberq.protocol.bodies.topics import TopicTable

__all__ = ["FORBIDDEN_TO_SEND", "TOPIC_NAME_LENGTH_MAX", "Topics", "topic_name_trouble"]

TOPIC_NAME_LENGTH_MAX = 127
# Of retries and dead letters: their names are longer than their group's.
GROUP_TOPIC_NAME_LENGTH_MAX = 255
# Plain numbers: a flag's name would reach files and peers.
INHERIT = int(Permission.INHERIT)
TEMPLATE = READ_WRITE | INHERIT
BENCHMARK_QUEUE_COUNT = 1024
CLUSTER_QUEUE_COUNT = 16
SCHEDULE_QUEUE_COUNT = 18

_LEGAL_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")

TopicListener = Callable[[str | None], None]


def topic_name_trouble(name: str) -> str | None:
    """Why a name cannot be a topic's, in the official words; None if it can."""
    if not name.strip():
        return "The specified topic is blank."
    if _LEGAL_NAME.fullmatch(name) is None:
        return (
            f"The specified topic: {name}, contains illegal characters, "
            "allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    if is_retry_topic(name) or is_dead_letter_topic(name):
        if len(name) > GROUP_TOPIC_NAME_LENGTH_MAX:
            return (
                f"The specified topic is DLQ or Retry topic: {name}, "
                f"and it's longer than topic max length: {GROUP_TOPIC_NAME_LENGTH_MAX}"
            )
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        return (
            f"The specified topic: {name}, is longer than topic max length: {TOPIC_NAME_LENGTH_MAX}"
        )
    return None


class Topics:
    """Every topic of this broker. A change makes a new version and is told to the listeners."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        now_ms: Callable[[], int],
        stored: TopicTable | None = None,
    ) -> None:
        self._now_ms = now_ms
        self._listeners: list[TopicListener] = []
        self._own = {config.broker_cluster_name, config.broker_name}
        self._own.add(reply_topic(config.broker_cluster_name))
        self._is_auto_created = config.auto_create_topic_enable
        stored = stored or TopicTable()
        built_in = {topic.name: topic for topic in _built_in_topics(config)}
        self._topics: dict[str, TopicConfig] = {**built_in, **stored.topics}
        self.version: DataVersion = stored.data_version
        is_changed = self._set_template()
        if not stored.topics:
            self.version = DataVersion(timestamp_ms=now_ms())
        elif is_changed or not built_in.keys() <= stored.topics.keys():
            # A name server that knows this version believes it knows the table.
            self.version = self.version.next(now_ms())

    def get(self, name: str) -> TopicConfig | None:
        return self._topics.get(name)

    def names(self) -> list[str]:
        return list(self._topics)

    def all(self) -> Mapping[str, TopicConfig]:
        return MappingProxyType(self._topics)

    def table(self) -> TopicTable:
        """A copy for files and peers."""
        return TopicTable(data_version=self.version, topics=dict(self._topics))

    def is_system(self, name: str) -> bool:
        """Whether users may neither create nor delete it."""
        return name in SYSTEM_TOPICS or name in self._own or name.startswith(SYSTEM_TOPIC_PREFIX)

    def create_for_send(
        self, name: str, template: str, queue_count: int, system_flag: int = 0
    ) -> TopicConfig | None:
        """The topic of a send, made after its template if it is new; None: that is not allowed."""
        known = self._topics.get(name)
        if known is not None:
            return known
        model = self._topics.get(template)
        if model is None or not model.permission & INHERIT:
            return None
        count = max(0, min(queue_count, model.write_queue_count))
        topic = TopicConfig(
            name=name,
            read_queue_count=count,
            write_queue_count=count,
            permission=model.permission & ~INHERIT,
            filter_type=model.filter_type,
            system_flag=system_flag,
        )
        self._add(topic)
        return topic

    def create_if_absent(
        self,
        name: str,
        queue_count: int,
        permission: int = READ_WRITE,
        system_flag: int = 0,
        is_ordered: bool = False,
    ) -> TopicConfig:
        """A topic that the broker itself needs: retries, dead letters, its own."""
        known = self._topics.get(name)
        if known is not None:
            return known
        topic = TopicConfig(
            name=name,
            read_queue_count=queue_count,
            write_queue_count=queue_count,
            permission=permission,
            system_flag=system_flag,
            is_ordered=is_ordered,
        )
        self._add(topic)
        return topic

    def put(self, config: TopicConfig) -> bool:
        """Create or change a topic; False: it was just so already."""
        if self._topics.get(config.name) == config:
            return False
        self._add(config)
        return True

    def remove(self, name: str) -> bool:
        if self._topics.pop(name, None) is None:
            return False
        self._changed(name)
        return True

    def mark_ordered(self, names: Mapping[str, str]) -> None:
        """Topics that the name servers list as ordered are so here too."""
        plain = [
            topic
            for topic in map(self._topics.get, names)
            if topic is not None and not topic.is_ordered
        ]
        for topic in plain:
            self._add(replace(topic, is_ordered=True))

    def set_auto_creation(self, is_enabled: bool, queue_count: int) -> None:
        """Follow `autoCreateTopicEnable`: sends find their template, or they do not."""
        self._is_auto_created = is_enabled
        if is_enabled and DEFAULT_TOPIC not in self._topics:
            self._add(_topic(DEFAULT_TOPIC, queue_count, TEMPLATE))
        elif self._set_template():
            self._changed(DEFAULT_TOPIC)

    def new_version(self) -> None:
        """Make name servers read the whole table again: what they see of it has changed."""
        self._changed(None)

    def on_change(self, listener: TopicListener) -> None:
        """Call `listener(name)` after a change of one topic, `listener(None)` after one of many."""
        self._listeners.append(listener)

    def _set_template(self) -> bool:
        """Official brokers forget the inherit bit for good when auto-creation is off once."""
        template = self._topics.get(DEFAULT_TOPIC)
        if template is None:
            return False
        inherit = INHERIT if self._is_auto_created else 0
        permission = template.permission & ~INHERIT | inherit
        self._topics[DEFAULT_TOPIC] = replace(template, permission=permission)
        return permission != template.permission

    def _add(self, topic: TopicConfig) -> None:
        self._topics[topic.name] = topic
        self._changed(topic.name)

    def _changed(self, name: str | None) -> None:
        self.version = self.version.next(self._now_ms())
        for listener in self._listeners:
            listener(name)


def _topic(name: str, queue_count: int, permission: int = READ_WRITE) -> TopicConfig:
    return TopicConfig(
        name=name,
        read_queue_count=queue_count,
        write_queue_count=queue_count,
        permission=permission,
    )


def _built_in_topics(config: BrokerConfig) -> list[TopicConfig]:
    """What every broker has before the first send."""
    cluster, name = config.broker_cluster_name, config.broker_name
    topics = [
        _topic(SELF_TEST_TOPIC, 1),
        _topic(BENCHMARK_TOPIC, BENCHMARK_QUEUE_COUNT),
        _topic(cluster, CLUSTER_QUEUE_COUNT, TEMPLATE if config.cluster_topic_enable else INHERIT),
        _topic(name, 1, TEMPLATE if config.broker_topic_enable else INHERIT),
        _topic(OFFSET_MOVED_TOPIC, 1),
        _topic(SCHEDULE_TOPIC, SCHEDULE_QUEUE_COUNT),
        _topic(reply_topic(cluster), 1),
        _topic(REVIVE_TOPIC_PREFIX + cluster, config.revive_queue_num),
        _topic(SYNC_MEMBER_TOPIC_PREFIX + name, 1, INHERIT),
        _topic(HALF_TOPIC, 1),
        _topic(HALF_OPERATION_TOPIC, 1),
        _topic(ROCKSDB_HALF_TOPIC, 1),
        _topic(ROCKSDB_HALF_OPERATION_TOPIC, 1),
    ]
    if config.auto_create_topic_enable:
        topics.append(_topic(DEFAULT_TOPIC, config.default_topic_queue_nums, TEMPLATE))
    if config.trace_topic_enable:
        topics.append(_topic(config.msg_trace_topic_name, 1))
    if config.timer_wheel_enable:
        topics.append(_topic(TIMER_TOPIC, 1))
    return topics
