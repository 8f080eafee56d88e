"""Log against consume queues: each record has its entry, each entry its record.

One pass over the log: the records of a queue come in the order of its entries, so what a queue has
between two of them belongs to no record. Memory: a number per queue and a few windows of entries.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import groupby

from emberq.record.properties import find_stored_property
from emberq.record.string_hash import tag_code
from emberq.record.system_flag import INNER_BATCH, TransactionType, transaction_type
from emberq.store.checks.damage import DamagedRanges
from emberq.store.checks.findings import Finding, FindingKind, Findings
from emberq.store.consume_queue import ENTRY, ENTRY_SIZE
from emberq.store.tag_codes import SCHEDULE_TOPIC
from emberq.store.view.directory import StoreView
from emberq.store.view.queue import QueueView, is_filler, is_written
from emberq.store.view.walk import LogRecord

WINDOW_ENTRIES = 400
WINDOWS_MAX = 2_048
_SCAN_ENTRIES = 4_000
# Tag codes below 32 bits are addresses of an extended queue (enableConsumeQueueExt).
_EXTENDED_ADDRESS_MAX = -(2**31) - 1
_SCHEDULE_TOPIC = SCHEDULE_TOPIC.encode()

_QueueKey = tuple[bytes, int]


class _QueueCheck:
    """How far one queue is checked."""

    __slots__ = ("end", "expected", "first_log_offset", "view", "window", "window_start")

    def __init__(self, view: QueueView, log_min_offset: int) -> None:
        self.view = view
        self.end = view.end_offset()
        self.expected = view.min_offset(self.end, log_min_offset)
        first = view.entry(self.expected)
        self.first_log_offset = -1 if first is None else first[0]
        self.window = b""
        self.window_start = 0


class QueueChecks:
    """Give it every record in log order, then `finish`."""

    def __init__(
        self,
        view: StoreView,
        findings: Findings,
        damaged: DamagedRanges,
        *,
        known_topics: frozenset[str] | None,
        is_settled: bool,
    ) -> None:
        self._findings = findings
        self._damaged = damaged
        self._known_topics = known_topics
        self._is_settled = is_settled
        self._log_min_offset = view.log.min_offset
        self._queues: dict[_QueueKey, _QueueCheck] = {}
        self._topic_starts: dict[bytes, int] = {}  # log offsets of the first entries
        self._windows: OrderedDict[_QueueKey, _QueueCheck] = OrderedDict()
        self.entries_checked = 0
        self.undispatched = 0
        self.superseded = 0
        self.of_deleted_topics = 0
        self.in_batch_queues = 0
        self.entries_beyond_log = 0
        for queue in view.queues():
            try:
                check = _QueueCheck(queue, self._log_min_offset)
            except OSError as error:
                self._add(FindingKind.QUEUE_UNREADABLE, queue, error.strerror or str(error))
                continue
            topic = queue.topic.encode()
            self._queues[topic, queue.queue_id] = check
            if check.first_log_offset >= 0:
                known = self._topic_starts.get(topic, check.first_log_offset)
                self._topic_starts[topic] = min(known, check.first_log_offset)

    @property
    def queue_count(self) -> int:
        return len(self._queues)

    # Per record

    def check(self, record: LogRecord, properties: bytes, tag: bytes | None) -> None:
        flag = record.system_flag
        if flag & 0x8C:
            if flag & INNER_BATCH:
                self.in_batch_queues += 1
                return
            if transaction_type(flag) in (TransactionType.PREPARED, TransactionType.ROLLBACK):
                return
        code = tag_code(tag.decode("utf-8", "replace")) if tag else 0
        self._check(record, record.topic, record.queue_id, record.queue_offset, code)
        if b"INNER_MULTI_DISPATCH\x01" in properties:
            for topic, queue_id, queue_offset in _further_queues(record, properties):
                self._check(record, topic, queue_id, queue_offset, code)

    def _check(
        self, record: LogRecord, topic: bytes, queue_id: int, queue_offset: int, code: int
    ) -> None:
        key = (topic, queue_id)
        queue = self._queues.get(key)
        if queue is None:
            self._without_queue(record, topic, queue_id, queue_offset)
            return
        at = (queue_offset - queue.window_start) * ENTRY_SIZE
        if not 0 <= at < len(queue.window):
            try:
                self._load(key, queue, queue_offset)
            except OSError as error:
                self._add(FindingKind.QUEUE_UNREADABLE, queue.view, error.strerror or str(error))
                return
            at = 0
        found = queue.window[at : at + ENTRY_SIZE]
        if not self._is_settled and not found.strip(b"\0"):
            found = queue.view.entries(queue_offset, 1)  # written since the window was read
        if found == ENTRY.pack(record.log_offset, record.size, code):
            self.entries_checked += 1
            if queue_offset == queue.expected:
                queue.expected += 1
                return
        elif not self._explain(record, queue, queue_offset, found, code):
            return
        if queue_offset > queue.expected:
            self._without_record(queue, queue.expected, queue_offset)
        queue.expected = max(queue.expected, queue_offset + 1)

    def _load(self, key: _QueueKey, queue: _QueueCheck, queue_offset: int) -> None:
        queue.window = queue.view.entries(queue_offset, WINDOW_ENTRIES)
        queue.window_start = queue_offset
        self._windows[key] = queue
        self._windows.move_to_end(key)
        if len(self._windows) > WINDOWS_MAX:
            self._windows.popitem(last=False)[1].window = b""

    def _explain(
        self, record: LogRecord, queue: _QueueCheck, queue_offset: int, found: bytes, code: int
    ) -> bool:
        """Say what is wrong with a record's entry; whether the entry is done with."""
        if record.log_offset < queue.first_log_offset and queue_offset >= queue.expected:
            self.superseded += 1  # the topic was deleted, and another made with its name
            return False
        log_offset, size, found_code = ENTRY.unpack(found) if found else (0, 0, 0)
        if not is_written(log_offset, size) or is_filler(size):
            if self._is_settled or queue_offset < queue.end:
                detail = f"the record at {record.log_offset} has no entry"
                self._add(FindingKind.RECORD_NOT_IN_QUEUE, queue.view, detail, queue_offset)
                return queue_offset < queue.end
            self.undispatched += 1
            return False
        if log_offset != record.log_offset:
            detail = f"the entry names {log_offset}, the record is at {record.log_offset}"
            self._add(FindingKind.ENTRY_OF_ANOTHER_RECORD, queue.view, detail, queue_offset)
            return queue_offset >= queue.expected
        self.entries_checked += 1
        if size != record.size:
            detail = f"the entry says {size} bytes, the record has {record.size}"
            self._add(FindingKind.ENTRY_SIZE, queue.view, detail, queue_offset)
        if found_code != code and not _is_other_code(record, found_code):
            detail = f"the entry says tag code {found_code}, the record's tag has {code}"
            self._add(FindingKind.ENTRY_TAG_CODE, queue.view, detail, queue_offset)
        return True

    def _without_queue(
        self, record: LogRecord, topic: bytes, queue_id: int, queue_offset: int
    ) -> None:
        name = topic.decode("utf-8", "replace")
        if self._known_topics is not None and name not in self._known_topics:
            self.of_deleted_topics += 1
        elif record.log_offset < self._topic_starts.get(topic, -1):
            self.superseded += 1
        elif not self._is_settled:
            self.undispatched += 1
        else:
            self._findings.add(
                Finding(
                    kind=FindingKind.RECORD_NOT_IN_QUEUE,
                    detail=f"the record at {record.log_offset} has no queue",
                    topic=name,
                    queue_id=queue_id,
                    queue_offset=queue_offset,
                )
            )

    # Entries that no record claimed

    def finish(self, log_end: int) -> None:
        for queue in self._queues.values():
            self._without_record(queue, queue.expected, queue.end, log_end)

    def _without_record(
        self, queue: _QueueCheck, start: int, end: int, log_end: int | None = None
    ) -> None:
        """Tell what entries are that no record claimed, neighbours of one kind together."""
        try:
            self._tell(queue, start, end, log_end)
        except OSError as error:
            self._add(FindingKind.QUEUE_UNREADABLE, queue.view, error.strerror or str(error))

    def _tell(self, queue: _QueueCheck, start: int, end: int, log_end: int | None) -> None:
        for kind, group in groupby(
            _entries(queue.view, start, end), lambda entry: self._kind(entry[1], entry[2], log_end)
        ):
            if kind is None:
                continue
            first, log_offset, _ = next(group)
            count = 1 + sum(1 for _ in group)  # noqa: B031 - the rest of it
            if kind is FindingKind.ENTRY_BEYOND_LOG:
                self.entries_beyond_log += count
                if not self._is_settled:
                    continue
            detail = _DETAILS[kind].format(log_offset=log_offset)
            self._add(kind, queue.view, detail, first, count)

    def _kind(self, log_offset: int, size: int, log_end: int | None) -> FindingKind | None:
        if is_filler(size) or (size > 0 and log_offset < self._log_min_offset):
            return None
        if not is_written(log_offset, size):
            return FindingKind.QUEUE_HOLE
        if self._damaged.hold(log_offset):
            return FindingKind.MESSAGE_LOST
        if log_end is not None and log_offset >= log_end:
            return FindingKind.ENTRY_BEYOND_LOG
        return FindingKind.ENTRY_WITHOUT_RECORD

    def _add(
        self,
        kind: FindingKind,
        queue: QueueView,
        detail: str,
        queue_offset: int | None = None,
        count: int = 1,
    ) -> None:
        self._findings.add(
            Finding(
                kind=kind,
                detail=detail,
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=queue_offset,
                count=count,
            )
        )


_DETAILS = {
    FindingKind.QUEUE_HOLE: "nothing is written there",
    FindingKind.MESSAGE_LOST: "the log is damaged at {log_offset}, where the message was",
    FindingKind.ENTRY_BEYOND_LOG: "the log ends before {log_offset}",
    FindingKind.ENTRY_WITHOUT_RECORD: "no record of this queue is at {log_offset}",
}


def _entries(queue: QueueView, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Queue offset, log offset and size of entries; zeros where files are missing."""
    offset = start
    while offset < end:
        content = queue.entries(offset, min(_SCAN_ENTRIES, end - offset))
        if not content:
            yield offset, 0, 0
            offset += 1
            continue
        for log_offset, size, _ in ENTRY.iter_unpack(content):
            yield offset, log_offset, size
            offset += 1


def _is_other_code(record: LogRecord, code: int) -> bool:
    """Whether the third field of an entry holds a delivery time or an address instead."""
    if record.topic == _SCHEDULE_TOPIC:
        return code >= record.stored_at_ms
    return code <= _EXTENDED_ADDRESS_MAX


def _further_queues(record: LogRecord, properties: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Light queues that the record is in as well: topic, queue id, queue offset."""
    names = find_stored_property(properties, b"INNER_MULTI_DISPATCH") or b""
    offsets = find_stored_property(properties, b"INNER_MULTI_QUEUE_OFFSET") or b""
    for name, offset in zip(names.split(b","), offsets.split(b","), strict=False):
        if offset.isdigit():
            queue_id = 0 if name.startswith(b"%LMQ%") else record.queue_id
            yield name, queue_id, int(offset)
