"""The broker's tables on disk: `config/*.json` in the official form, each with its `.bak`."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from emberq.broker.transactions.counts import TransactionCountTable
from emberq.errors import ProtocolError, StoreDamaged
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.groups import GroupTable
from emberq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from emberq.protocol.bodies.request_mode import RequestModeTable
from emberq.protocol.bodies.scans import ScanStartTable
from emberq.protocol.bodies.timers import TimerMetricsTable
from emberq.protocol.bodies.topics import TopicTable
from emberq.protocol.fastjson import write_json, write_pretty_json
from emberq.stored_file import backup_of, replace_file

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Struct)


class BloomFilterBits(Struct, frozen=True, kw_only=True):
    """Positions that a subscription sets in the bit map of a queue's extension."""

    bit_count: int = field(name="bitNum", default=0)
    positions: list[int] = field(name="bitPos", default_factory=list)


class FilterSubscription(Struct, frozen=True, kw_only=True):
    """A group's SQL subscription of one topic, kept across restarts."""

    bloom_filter: BloomFilterBits | None = field(name="bloomFilterData", default=None)
    born_at_ms: int = field(name="bornTime", default=0)
    client_version: int = field(name="clientVersion", default=0)
    group: str | None = field(name="consumerGroup", default=None)
    is_dead: bool = field(name="dead", default=False)
    dead_at_ms: int = field(name="deadTime", default=0)
    expression: str | None = None
    expression_type: str | None = field(name="expressionType", default=None)
    topic: str | None = None


class TopicFilters(Struct, frozen=True, kw_only=True):
    groups: dict[str, FilterSubscription] = field(name="groupFilterData", default_factory=dict)
    topic: str | None = None


class FilterTable(Struct, frozen=True, kw_only=True):
    """consumerFilter.json."""

    topics: dict[str, TopicFilters] = field(name="filterDataByTopic", default_factory=dict)


class MetadataFile(Generic[T]):
    """One table and its file."""

    def __init__(self, path: Path, new: Callable[[], T]) -> None:
        self.path = path
        self._new = new

    def load(self) -> T:
        """The stored table, the one before it if the file is damaged, or an empty one.

        Raises:
            StoreDamaged: neither the file nor its predecessor can be read.
        """
        damage: list[str] = []
        empty = self._new()
        for candidate in (self.path, backup_of(self.path)):
            try:
                content = candidate.read_bytes()
            except FileNotFoundError:
                continue  # official brokers are without the file for a moment when they store it
            except OSError as error:
                raise StoreDamaged(f"{candidate}: {error.strerror or error}") from None
            if not content.strip():
                continue
            try:
                return decode_body(type(empty), content)
            except ProtocolError as error:
                damage.append(f"{candidate} cannot be read: {error}")
                log.warning("metadata_damaged path=%s reason=%s", candidate, error)
        if damage:
            raise StoreDamaged("; ".join(damage))
        return empty

    def save(self, table: T) -> None:
        """Store a table durably. Raises OSError, and leaves the file as it was."""
        replace_file(self.path, self.text(table))

    def text(self, table: T) -> bytes:
        return write_pretty_json(table)


class CompactFile(MetadataFile[T]):
    """One that official brokers write without line breaks."""

    def text(self, table: T) -> bytes:
        return write_json(table)


class TopicsFile(MetadataFile[TopicTable]):
    """Remembers the text of every topic: of ten thousand, one changes between two writes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, TopicTable)
        self._texts: dict[str, tuple[TopicConfig, bytes]] = {}

    def text(self, table: TopicTable) -> bytes:
        known, self._texts = self._texts, {}
        for name, topic in table.topics.items():
            text = known.get(name)
            if text is None or text[0] is not topic:
                text = (topic, _indented_twice(name, topic))
            self._texts[name] = text
        frame = write_pretty_json(replace(table, topics={}))
        if not self._texts:
            return frame
        topics = b",\n\t\t".join(text for _, text in self._texts.values())
        return frame.replace(_NO_TOPICS, b'"topicConfigTable":{\n\t\t%b\n\t}' % topics, 1)


_NO_TOPICS = b'"topicConfigTable":{}'


def _indented_twice(name: str, topic: TopicConfig) -> bytes:
    member = b"%b:%b" % (write_json(name), write_pretty_json(topic))
    return member.replace(b"\n", b"\n\t\t")  # no string holds a line break as it is


class MetadataFiles:
    """All tables of one store directory."""

    def __init__(self, store_root: Path) -> None:
        folder = store_root / "config"
        self.topics = TopicsFile(folder / "topics.json")
        self.groups = MetadataFile(folder / "subscriptionGroup.json", GroupTable)
        self.consumer_offsets = MetadataFile(folder / "consumerOffset.json", ConsumerOffsetTable)
        self.delay_offsets = MetadataFile(folder / "delayOffset.json", DelayOffsetTable)
        self.filters = MetadataFile(folder / "consumerFilter.json", FilterTable)
        self.request_modes = MetadataFile(folder / "messageRequestMode.json", RequestModeTable)
        self.timer_metrics = CompactFile(folder / "timermetrics", TimerMetricsTable)
        self.scan_starts = MetadataFile(folder / "emberqScanStarts.json", ScanStartTable)
        self.transaction_counts = MetadataFile(folder / "transactionMetrics", TransactionCountTable)
