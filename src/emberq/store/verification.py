"""Checking a whole store: every record, every queue entry, every key, in one pass over the log."""

from collections.abc import Callable

from msgspec import Struct

from emberq.record.properties import find_stored_property
from emberq.record.property_crc import has_valid_property_crc
from emberq.record.property_names import RECORD_CRC
from emberq.store.checks.damage import DamagedRanges
from emberq.store.checks.findings import Finding, FindingKind, Findings
from emberq.store.checks.index import IndexChecks
from emberq.store.checks.queues import QueueChecks
from emberq.store.view.directory import StoreView
from emberq.store.view.walk import Flaw, FlawKind, LogRecord, LogWalk

FINDINGS_KEPT_DEFAULT = 20
_PROGRESS_STEP_RECORDS = 1_000
_RECORD_CRC = RECORD_CRC.encode() + b"\x01"

Progress = Callable[[int, int], None]

_FLAW_KINDS = {
    FlawKind.DAMAGED: FindingKind.LOG_DAMAGED,
    FlawKind.HOLE: FindingKind.LOG_HOLE,
    FlawKind.MISSING: FindingKind.LOG_MISSING,
    FlawKind.UNREADABLE: FindingKind.LOG_UNREADABLE,
}


class Verification(Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome; nothing is wrong when `finding_count` is 0."""

    root: str
    state: str
    log_min_offset: int
    log_end_offset: int
    records: int
    bytes: int
    queues: int
    queue_entries: int
    index_entries: int
    finding_count: int
    finding_counts: dict[str, int]
    findings: list[Finding]
    notes: list[str]


class Verifier:
    """Runs all checks; `known_topics` tells records of deleted topics from lost queues."""

    def __init__(
        self,
        view: StoreView,
        *,
        is_index_checked: bool = True,
        known_topics: frozenset[str] | None = None,
        findings_kept_max: int = FINDINGS_KEPT_DEFAULT,
        progress: Progress | None = None,
    ) -> None:
        self._view = view
        self._is_index_checked = is_index_checked
        self._known_topics = known_topics
        self._progress = progress
        self._findings = Findings(findings_kept_max)
        self._damaged = DamagedRanges()

    def run(self) -> Verification:
        view = self._view
        state = view.state()
        # Queues and index before the log: the log of a running broker is never behind them.
        queues = QueueChecks(
            view,
            self._findings,
            self._damaged,
            known_topics=self._known_topics,
            is_settled=state.is_settled,
        )
        index = None
        if self._is_index_checked:
            index = IndexChecks(view, self._findings, self._damaged, is_settled=state.is_settled)
            if not index.is_present:
                index = None
        self._check_sizes()
        walk = LogWalk(view.log, is_crc_checked=True)
        records, size_bytes = self._walk(walk, queues, index)
        notes = self._tail(walk, is_settled=state.is_settled)
        queues.finish(walk.end)
        if index is not None:
            index.finish(walk.end)
        return Verification(
            root=str(view.root),
            state=state.run.value,
            log_min_offset=view.log.min_offset,
            log_end_offset=walk.end,
            records=records,
            bytes=size_bytes,
            queues=queues.queue_count,
            queue_entries=queues.entries_checked,
            index_entries=0 if index is None else index.entries_checked,
            finding_count=self._findings.total,
            finding_counts={kind.value: n for kind, n in self._findings.counts.most_common()},
            findings=self._findings.kept,
            notes=notes + self._notes(queues, index),
        )

    def _walk(
        self, walk: LogWalk, queues: QueueChecks, index: IndexChecks | None
    ) -> tuple[int, int]:
        log = self._view.log
        total = log.size_bytes
        records = size_bytes = 0
        for found in walk:
            if isinstance(found, Flaw):
                self._flaw(found, _FLAW_KINDS[found.kind])
                self._damaged.add(found)
                continue
            records += 1
            size_bytes += found.size
            properties = found.properties
            if not found.is_body_intact:
                detail = "the body does not match its checksum"
                self._record(found, FindingKind.BODY_CHECKSUM, detail)
            if _RECORD_CRC in properties and not has_valid_property_crc(found.content):
                detail = "the record does not match the checksum in its properties"
                self._record(found, FindingKind.PROPERTIES_CHECKSUM, detail)
            tag = find_stored_property(properties, b"TAGS")
            queues.check(found, properties, tag)
            if index is not None:
                index.check(found, properties, tag)
            if self._progress is not None and records % _PROGRESS_STEP_RECORDS == 0:
                self._progress(found.log_offset - log.min_offset, total)
        return records, size_bytes

    def _check_sizes(self) -> None:
        log = self._view.log
        for segment in log.segments:
            if segment.size != log.segment_size:
                self._findings.add(
                    Finding(
                        kind=FindingKind.SEGMENT_SIZE,
                        detail=f"{segment.size} bytes, other segments have {log.segment_size}",
                        log_offset=segment.start,
                        file=segment.path.name,
                    )
                )

    def _tail(self, walk: LogWalk, *, is_settled: bool) -> list[str]:
        if walk.tail is None:
            return []
        if is_settled or walk.tail.kind is FlawKind.UNREADABLE:
            self._damaged.add(walk.tail)
            self._flaw(walk.tail, FindingKind.LOG_TAIL)
            return []
        return [
            f"something unfinished is written behind the last record, at {walk.tail.log_offset} "
            f"({walk.tail.detail}); recovery cuts it off"
        ]

    def _flaw(self, flaw: Flaw, kind: FindingKind) -> None:
        self._findings.add(
            Finding(kind=kind, detail=flaw.detail, log_offset=flaw.log_offset, size_bytes=flaw.size)
        )

    def _record(self, record: LogRecord, kind: FindingKind, detail: str) -> None:
        self._findings.add(
            Finding(
                kind=kind,
                detail=detail,
                log_offset=record.log_offset,
                size_bytes=record.size,
                topic=record.topic.decode("utf-8", "replace"),
                queue_id=record.queue_id,
                queue_offset=record.queue_offset,
            )
        )

    def _notes(self, queues: QueueChecks, index: IndexChecks | None) -> list[str]:
        counted = [
            (queues.undispatched, "records that are not in their queues yet"),
            (queues.entries_beyond_log, "queue entries of records that the log does not have"),
            (queues.superseded, "records older than the queue that has their topic's name now"),
            (queues.of_deleted_topics, "records of deleted topics"),
            (queues.in_batch_queues, "records in batch queues, which are not checked"),
            (0 if index is None else index.unindexed, "keys that are not in the index yet"),
        ]
        notes = [f"{text}: {count:,}" for count, text in counted if count]
        if index is None and self._is_index_checked:
            notes.append("there is no index to check")
        if index is not None and index.files_skipped:
            notes.append("keys are not looked for: part of the index cannot be read")
        return notes
