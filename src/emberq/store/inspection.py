"""What a store directory holds, as one report: segments, queues, index, small files, flaws."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from emberq.store.checkpoint import Checkpoint
from emberq.store.view.directory import StoreView
from emberq.store.view.files import PlacedFile
from emberq.store.view.log import LogView
from emberq.store.view.queue import QueueView
from emberq.store.view.walk import Flaw, LogRecord, LogWalk

PROBLEMS_KEPT_MAX = 1_000
_PROGRESS_STEP_RECORDS = 2_000

Progress = Callable[[int, int], None]  # bytes done, bytes in all


class SegmentReport(Struct, kw_only=True, rename="camel"):
    """One file of the log."""

    path: str
    start: int
    size_bytes: int
    used_bytes: int = 0  # up to the end of its last record
    records: int = 0
    first_stored_at_ms: int | None = None
    last_stored_at_ms: int | None = None
    bodies_damaged: int = 0


class QueueReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """One consume queue; `max_offset` is where its next message goes."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    first_stored_at_ms: int | None
    last_stored_at_ms: int | None
    files: int


class IndexReport(Struct, frozen=True, kw_only=True, rename="camel"):
    path: str
    size_bytes: int
    entries: int
    slots: int | None
    slots_used: int
    begin_at_ms: int
    end_at_ms: int
    begin_log_offset: int
    end_log_offset: int


class CheckpointReport(Struct, frozen=True, kw_only=True, rename="camel"):
    log_at_ms: int
    queues_at_ms: int
    index_at_ms: int
    master_flushed_offset: int
    confirmed_offset: int
    dispatched_offset: int


class Problem(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something that should not be so."""

    kind: str
    detail: str
    log_offset: int | None = None
    size_bytes: int | None = None


class StoreReport(Struct, kw_only=True, rename="camel"):
    """Everything `inspect` found out."""

    root: str
    state: str
    has_abort: bool
    lock: str
    lock_process_id: int | None
    checkpoint: CheckpointReport | None
    segment_size_bytes: int
    log_min_offset: int
    log_end_offset: int
    records: int
    is_crc_checked: bool
    segments: list[SegmentReport]
    queues: list[QueueReport]
    index_files: list[IndexReport]
    problems: list[Problem]
    problem_count: int
    notes: list[str]


class Inspection:
    """Builds the report; a file that cannot be read is a problem in it, not its end."""

    def __init__(
        self, view: StoreView, *, is_crc_checked: bool = False, progress: Progress | None = None
    ) -> None:
        self._view = view
        self._is_crc_checked = is_crc_checked
        self._progress = progress
        self._problems: list[Problem] = []
        self._problem_count = 0
        self._notes: list[str] = []

    def run(self) -> StoreReport:
        view = self._view
        state = view.state()
        checkpoint = view.checkpoint()
        # Queues before the log: the log of a running broker is never behind its queues.
        queues = [self._queue(queue) for queue in view.queues()]
        index_files = self._index_files()
        walk = LogWalk(view.log, is_crc_checked=self._is_crc_checked)
        segments = self._segments(walk)
        if walk.tail is not None:
            self._tail(walk.tail, is_settled=state.is_settled)
        return StoreReport(
            root=str(view.root),
            state=state.run.value,
            has_abort=state.has_abort,
            lock=state.lock.state.value,
            lock_process_id=state.lock.process_id,
            checkpoint=None if checkpoint is None else _checkpoint_report(checkpoint),
            segment_size_bytes=view.log.segment_size,
            log_min_offset=view.log.min_offset,
            log_end_offset=walk.end,
            records=sum(segment.records for segment in segments),
            is_crc_checked=self._is_crc_checked,
            segments=segments,
            queues=[queue for queue in queues if queue is not None],
            index_files=index_files,
            problems=self._problems,
            problem_count=self._problem_count,
            notes=self._notes,
        )

    def _segments(self, walk: LogWalk) -> list[SegmentReport]:
        log = self._view.log
        reports = [
            SegmentReport(path=str(segment.path), start=segment.start, size_bytes=segment.size)
            for segment in log.segments
        ]
        self._check_sizes(log.segments, log.segment_size)
        total = log.size_bytes
        following = iter(zip(log.segments, reports, strict=True))
        end, report = -1, SegmentReport(path="", start=0, size_bytes=0)
        until_progress = 0
        for found in walk:
            if isinstance(found, Flaw):
                self._problem(found.kind.value, found.detail, found.log_offset, found.size)
                continue
            while found.log_offset >= end:
                segment, report = next(following)
                end = segment.end
            _count(report, found)
            if not found.is_body_intact:
                report.bodies_damaged += 1
                detail = "the body does not match its checksum"
                self._problem("checksum", detail, found.log_offset, found.size)
            until_progress -= 1
            if self._progress is not None and until_progress <= 0:
                until_progress = _PROGRESS_STEP_RECORDS
                self._progress(found.log_offset - log.min_offset, total)
        return reports

    def _check_sizes(self, segments: list[PlacedFile], size: int) -> None:
        for segment in segments:
            if segment.size != size:
                detail = f"{segment.path.name} has {segment.size} bytes, others have {size}"
                self._problem("size", detail, segment.start)

    def _tail(self, tail: Flaw, *, is_settled: bool) -> None:
        if is_settled:
            self._problem(tail.kind.value, tail.detail, tail.log_offset, tail.size)
        else:
            self._notes.append(
                f"behind the last record, at {tail.log_offset}, something unfinished is written "
                f"({tail.detail}); recovery cuts it off"
            )

    def _queue(self, queue: QueueView) -> QueueReport | None:
        try:
            return queue_report(queue, self._view.log)
        except OSError as error:
            self._problem("unreadable", _reason(error, queue.folder))
            return None

    def _index_files(self) -> list[IndexReport]:
        reports: list[IndexReport] = []
        for file in self._view.index_files():
            try:
                header = file.header()
                if header is None:
                    self._problem("size", f"{file.path.name} is shorter than its header")
                    continue
                shape = file.shape(header)
            except OSError as error:
                self._problem("unreadable", _reason(error, file.path))
                continue
            reports.append(
                IndexReport(
                    path=str(file.path),
                    size_bytes=file.size,
                    entries=header.next_number - 1,
                    slots=None if shape is None else shape.slots,
                    slots_used=header.used_slots,
                    begin_at_ms=header.begin_timestamp_ms,
                    end_at_ms=header.end_timestamp_ms,
                    begin_log_offset=header.begin_log_offset,
                    end_log_offset=header.end_log_offset,
                )
            )
        return reports

    def _problem(
        self, kind: str, detail: str, log_offset: int | None = None, size: int | None = None
    ) -> None:
        self._problem_count += 1
        if len(self._problems) < PROBLEMS_KEPT_MAX:
            self._problems.append(
                Problem(kind=kind, detail=detail, log_offset=log_offset, size_bytes=size)
            )


def queue_report(queue: QueueView, log: LogView) -> QueueReport:
    """Bounds of a queue, and when its first and last messages were stored. Raises OSError."""
    end = queue.end_offset()
    first = queue.min_offset(end, log.min_offset)
    return QueueReport(
        topic=queue.topic,
        queue_id=queue.queue_id,
        min_offset=first,
        max_offset=end,
        first_stored_at_ms=_stored_at(queue, log, first),
        last_stored_at_ms=_stored_at(queue, log, end - 1),
        files=len(queue.files),
    )


def _stored_at(queue: QueueView, log: LogView, offset: int) -> int | None:
    entry = queue.entry(offset) if offset >= 0 else None
    return None if entry is None else log.stored_at_ms(entry[0], entry[1])


def _count(report: SegmentReport, record: LogRecord) -> None:
    report.records += 1
    report.used_bytes = record.log_offset + record.size - report.start
    report.last_stored_at_ms = record.stored_at_ms
    if report.first_stored_at_ms is None:
        report.first_stored_at_ms = record.stored_at_ms


def _checkpoint_report(checkpoint: Checkpoint) -> CheckpointReport:
    return CheckpointReport(
        log_at_ms=checkpoint.log_timestamp_ms,
        queues_at_ms=checkpoint.queues_timestamp_ms,
        index_at_ms=checkpoint.index_timestamp_ms,
        master_flushed_offset=checkpoint.master_flushed_offset,
        confirmed_offset=checkpoint.confirmed_offset,
        dispatched_offset=checkpoint.dispatched_offset,
    )


def _reason(error: OSError, path: Path) -> str:
    return f"{error.filename or path}: {error.strerror or error}"
