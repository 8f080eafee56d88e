"""A broker's tables and their administration, without a network and without a store."""

from collections.abc import Iterable
from pathlib import Path

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.handlers.admin_groups import AdminGroupHandlers
from emberq.broker.handlers.admin_topics import AdminTopicHandlers
from emberq.broker.handlers.consume_stats import ConsumeStatsHandlers
from emberq.broker.handlers.topic_stats import TopicStatsHandlers
from emberq.broker.members import Consumers
from emberq.broker.metadata_files import MetadataFiles
from emberq.broker.persistence import Persistence
from emberq.broker.statistics.broker_statistics import BrokerStatistics
from emberq.broker.topics import Topics
from emberq.protocol.command import Command
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, ask

NOW_MS = 1_700_000_000_000


class FakeStore:
    """Queues with the store times of their messages, from offset 0 on."""

    def __init__(self) -> None:
        self.times_ms: dict[tuple[str, int], list[int]] = {}
        self.deleted: list[str] = []

    def min_offset(self, topic: str, queue_id: int) -> int:
        return 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        return len(self.times_ms.get((topic, queue_id), []))

    def stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int:
        times_ms = self.times_ms.get((topic, queue_id), [])
        return times_ms[offset] if 0 <= offset < len(times_ms) else -1

    def earliest_time_ms(self, topic: str, queue_id: int) -> int:
        return self.stored_at_ms(topic, queue_id, 0)

    def delete_topics(self, names: Iterable[str]) -> None:
        self.deleted += names


class FakeOffsets:
    def __init__(self) -> None:
        self.committed: dict[tuple[str, str, int], int] = {}
        self.next_pulls: dict[tuple[str, str, int], int] = {}

    def query(self, group: str, topic: str, queue_id: int) -> int:
        return self.committed.get((group, topic, queue_id), -1)

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        return self.next_pulls.get((group, topic, queue_id), -1)

    def topics_of(self, group: str) -> set[str]:
        return {topic for owner, topic, _ in self.committed if owner == group}

    def groups_of(self, topic: str) -> set[str]:
        return {group for group, name, _ in self.committed if name == topic}

    def remove_topic(self, topic: str) -> None:
        self.committed = {key: at for key, at in self.committed.items() if key[1] != topic}

    def remove_group(self, group: str) -> None:
        self.committed = {key: at for key, at in self.committed.items() if key[0] != group}


class Administered:
    def __init__(self, home: Path, **config: object) -> None:
        self.config = BrokerConfig(
            **{"broker_name": "broker-a", "broker_cluster_name": "C1", **config}  # type: ignore[arg-type]  # names and types are the caller's
        )
        self.files = MetadataFiles(home)
        self.persistence = Persistence()
        self.topics = Topics(self.config, now_ms=lambda: NOW_MS)
        self.groups = Groups(
            is_auto_created=lambda: self.config.auto_create_subscription_group,
            now_ms=lambda: NOW_MS,
        )
        topics_changed = self.persistence.add("topics", self.files.topics, self.topics.table)
        groups_changed = self.persistence.add("groups", self.files.groups, self.groups.table)
        self.topics.on_change(lambda _: topics_changed())
        self.groups.on_change(lambda _: groups_changed())
        self.consumers = Consumers()
        self.offsets = FakeOffsets()
        self.store = FakeStore()
        self.statistics = BrokerStatistics("C1", is_system_topic=self.topics.is_system)
        self.registry = HandlerRegistry()
        AdminTopicHandlers(
            topics=self.topics,
            offsets=self.offsets,
            store=self.store,
            statistics=self.statistics,
            persistence=self.persistence,
            registered=self.register,
            config=lambda: self.config,
            started_at_ms=NOW_MS,
        ).add_to(self.registry)
        AdminGroupHandlers(
            groups=self.groups,
            offsets=self.offsets,
            statistics=self.statistics,
            persistence=self.persistence,
            config=lambda: self.config,
        ).add_to(self.registry)
        TopicStatsHandlers(
            broker_name="broker-a",
            topics=self.topics,
            store=self.store,
            statistics=self.statistics,
        ).add_to(self.registry)
        ConsumeStatsHandlers(
            broker_name="broker-a",
            broker_address="10.1.1.7:10911",
            topics=self.topics,
            groups=self.groups,
            consumers=self.consumers,
            offsets=self.offsets,
            store=self.store,
            statistics=self.statistics,
            now_ms=lambda: NOW_MS,
        ).add_to(self.registry)

    async def register(self) -> None:
        """There are no name servers here."""

    async def ask(self, code: int, body: bytes = b"", /, **fields: object) -> Command:
        texts = {name: str(value) for name, value in fields.items()}
        return await ask(self.registry, Peer(), code, texts, body)
