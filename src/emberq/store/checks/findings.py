"""What is wrong with a store, counted by kind; the first of them in full."""

from collections import Counter
from enum import Enum

from msgspec import Struct


class FindingKind(Enum):
    """The value is what users and scripts see."""

    LOG_DAMAGED = "log-damaged"
    LOG_HOLE = "log-hole"
    LOG_MISSING = "log-missing"
    LOG_UNREADABLE = "log-unreadable"
    LOG_TAIL = "log-tail"
    SEGMENT_SIZE = "segment-size"
    BODY_CHECKSUM = "body-checksum"
    PROPERTIES_CHECKSUM = "record-checksum"
    QUEUE_UNREADABLE = "queue-unreadable"
    QUEUE_HOLE = "queue-hole"
    MESSAGE_LOST = "message-lost"
    RECORD_NOT_IN_QUEUE = "record-not-in-queue"
    ENTRY_WITHOUT_RECORD = "entry-without-record"
    ENTRY_BEYOND_LOG = "entry-beyond-log"
    ENTRY_OF_ANOTHER_RECORD = "entry-of-another-record"
    ENTRY_SIZE = "entry-size"
    ENTRY_TAG_CODE = "entry-tag-code"
    INDEX_UNREADABLE = "index-unreadable"
    INDEX_HEADER = "index-header"
    INDEX_CHAIN = "index-chain"
    INDEX_ENTRY_WITHOUT_RECORD = "index-entry-without-record"
    INDEX_ENTRY_WITHOUT_KEY = "index-entry-without-key"
    KEY_NOT_IN_INDEX = "key-not-in-index"


class Finding(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    kind: FindingKind
    detail: str
    log_offset: int | None = None
    size_bytes: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    count: int = 1  # messages or entries that this is about
    file: str | None = None


class Findings:
    """Keeps the first `kept_max` findings, and how many there are of each kind."""

    def __init__(self, kept_max: int) -> None:
        self._kept_max = kept_max
        self.kept: list[Finding] = []
        self.counts: Counter[FindingKind] = Counter()

    def add(self, finding: Finding) -> None:
        self.counts[finding.kind] += finding.count
        if len(self.kept) < self._kept_max:
            self.kept.append(finding)

    @property
    def total(self) -> int:
        return self.counts.total()
