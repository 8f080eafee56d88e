"""How many half messages of each topic wait for their end (`config/transactionMetrics`)."""

from collections.abc import Callable

from msgspec import Struct, field

from emberq.model.data_version import DataVersion

# Topics come from the network; those beyond are not counted.
TOPICS_MAX = 100_000


class TopicCount(Struct, frozen=True, kw_only=True):
    count: int = 0
    changed_at_ms: int = field(name="timeStamp", default=0)


class TransactionCountTable(Struct, frozen=True, kw_only=True):
    """The file."""

    data_version: DataVersion | None = field(name="dataVersion", default=None)
    topics: dict[str, TopicCount] = field(name="transactionCount", default_factory=dict)


class TransactionCounts:
    """No I/O, no clock."""

    def __init__(
        self, now_ms: Callable[[], int], stored: TransactionCountTable | None = None
    ) -> None:
        stored = stored or TransactionCountTable()
        self._now_ms = now_ms
        self._version = stored.data_version or DataVersion(timestamp_ms=now_ms())
        self._counts = {topic: entry.count for topic, entry in stored.topics.items()}
        self._changed_at_ms = {topic: entry.changed_at_ms for topic, entry in stored.topics.items()}
        self._on_change: Callable[[], None] = lambda: None

    def on_change(self, listener: Callable[[], None]) -> None:
        self._on_change = listener

    def add(self, topic: str, count: int) -> None:
        counts = self._counts
        if topic not in counts and len(counts) >= TOPICS_MAX:
            return
        counts[topic] = counts.get(topic, 0) + count
        self._changed_at_ms[topic] = self._now_ms()
        self._on_change()

    def count(self, topic: str) -> int:
        return self._counts.get(topic, 0)

    def forget(self, topic: str) -> None:
        """The topic is gone."""
        if self._counts.pop(topic, None) is not None:
            del self._changed_at_ms[topic]
            self._on_change()

    def table(self) -> TransactionCountTable:
        self._version = self._version.next(self._now_ms())
        topics = {
            topic: TopicCount(count=count, changed_at_ms=self._changed_at_ms[topic])
            for topic, count in self._counts.items()
        }
        return TransactionCountTable(data_version=self._version, topics=topics)
