"""Which messages of a store to read, and reading them one by one, in flat memory."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from emberq.errors import RecordError, StoreError
from emberq.record.message_id import make_offset_id, parse_offset_id
from emberq.record.properties import find_stored_property
from emberq.record.record import Record
from emberq.record.string_hash import index_hash
from emberq.store.consume_queue import ENTRY
from emberq.store.view.directory import StoreView
from emberq.store.view.queue import QueueView, is_filler, is_written
from emberq.store.view.walk import Flaw, LogRecord, LogWalk

_READ_ENTRIES = 400
_PROGRESS_STEP_RECORDS = 1_000

Progress = Callable[[int, int], None]
OnDamage = Callable[[str], None]


class Selection(Struct, frozen=True, kw_only=True):
    """All conditions hold for a selected message; `None` is no condition."""

    topic: str | None = None
    queue_id: int | None = None
    offset_min: int | None = None  # first queue offset
    offset_max: int | None = None  # last queue offset
    stored_from_ms: int | None = None
    stored_until_ms: int | None = None
    key: str | None = None  # one of the keys, or the unique key
    message_id: str | None = None  # offset id or unique key
    log_offset: int | None = None
    is_from_log: bool = False  # walk the log instead of queues and index
    limit: int | None = None


class MessageSelector:
    """Finds messages by the shortest way: log offset, index, queues, or the log itself.

    Records that cannot be read are told to `on_damage` and left out.
    """

    def __init__(
        self,
        view: StoreView,
        selection: Selection,
        *,
        on_damage: OnDamage,
        progress: Progress | None = None,
    ) -> None:
        self._view = view
        self._selection = selection
        self._on_damage = on_damage
        self._progress = progress

    def __iter__(self) -> Iterator[Record]:
        limit = self._selection.limit
        if limit is not None and limit <= 0:
            return
        for count, record in enumerate(self._records(), start=1):
            yield record
            if count == limit:
                return

    def _records(self) -> Iterator[Record]:
        selection = self._selection
        if selection.log_offset is not None:
            yield from self._filtered(self._at([selection.log_offset]))
        elif selection.is_from_log:
            yield from self._from_log()
        elif selection.message_id is not None:
            yield from self._filtered(self._by_id(selection.message_id))
        elif selection.key is not None:
            yield from self._filtered(self._at(self._indexed(selection.key)))
        else:
            yield from self._from_queues()

    # By place

    def _at(self, offsets: list[int]) -> Iterator[Record]:
        for offset in offsets:
            try:
                yield self._view.log.record(offset)
            except RecordError as error:
                self._on_damage(str(error))
            except OSError as error:
                self._on_damage(f"the record at {offset}: {error.strerror or error}")

    def _by_id(self, message_id: str) -> Iterator[Record]:
        """Offset ids and unique keys look alike: the record at the named offset decides."""
        try:
            _, offset = parse_offset_id(message_id)
            record = self._view.log.record(offset)
            if make_offset_id(record.store_host, offset) == message_id.upper():
                yield record
                return
        except (RecordError, OSError):
            pass
        yield from self._at(self._indexed(message_id))

    def _indexed(self, key: str) -> list[int]:
        """Log offsets that the index names for a key, ascending. Raises StoreError without one."""
        files = self._view.index_files()
        if not files:
            raise StoreError("there is no index file: add --from-log to search the log itself")
        topic = self._selection.topic
        topics = self._view.topics() if topic is None else [topic]
        hashes = {index_hash(f"{topic}#{key}") for topic in topics}
        found: set[int] = set()
        for file in files:
            header = file.header()
            shape = None if header is None else file.shape(header)
            if header is None or shape is None:
                if header is None or header.next_number > 1:
                    self._on_damage(f"{file.path.name} is not searched: its slots are not clear")
                continue
            for key_hash in hashes:
                found.update(file.find(key_hash, header, shape))
        return sorted(found)

    # By queue

    def _from_queues(self) -> Iterator[Record]:
        selection = self._selection
        queues = [
            queue
            for queue in self._view.queues(selection.topic)
            if selection.queue_id is None or queue.queue_id == selection.queue_id
        ]
        ranges = [(queue, *self._range(queue)) for queue in queues]
        total = sum(end - start for _, start, end in ranges)
        done = 0
        for queue, start, end in ranges:
            for record in self._of_queue(queue, start, end):
                if self._progress is not None and done % _PROGRESS_STEP_RECORDS == 0:
                    self._progress(done, total)
                done += 1
                # Clocks that were set back leave times out of order: halving is not enough.
                if _is_within(
                    record.stored_at_ms, selection.stored_from_ms, selection.stored_until_ms
                ):
                    yield record

    def _range(self, queue: QueueView) -> tuple[int, int]:
        selection = self._selection
        end = queue.end_offset()
        start = queue.min_offset(end, self._view.log.min_offset)
        if selection.offset_min is not None:
            start = max(start, selection.offset_min)
        if selection.offset_max is not None:
            end = min(end, selection.offset_max + 1)
        if selection.stored_from_ms is not None:
            start = self._first_stored_from(queue, start, end, selection.stored_from_ms)
        if selection.stored_until_ms is not None:
            end = self._first_stored_from(queue, start, end, selection.stored_until_ms + 1)
        return start, max(start, end)

    def _first_stored_from(self, queue: QueueView, low: int, high: int, moment_ms: int) -> int:
        """The first entry whose record was stored at a moment or later."""
        while low < high:
            middle = (low + high) // 2
            stored_at_ms = self._readable_time(queue, middle, high)
            if stored_at_ms is not None and stored_at_ms < moment_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def _readable_time(self, queue: QueueView, offset: int, end: int) -> int | None:
        """The store time of an entry; of the next readable one if its record is damaged."""
        for candidate in range(offset, end):
            entry = queue.entry(candidate)
            if entry is not None:
                stored_at_ms = self._view.log.stored_at_ms(entry[0], entry[1])
                if stored_at_ms is not None:
                    return stored_at_ms
        return None

    def _of_queue(self, queue: QueueView, start: int, end: int) -> Iterator[Record]:
        offset = start
        while offset < end:
            content = queue.entries(offset, min(_READ_ENTRIES, end - offset))
            if not content:
                self._damaged_entry(queue, offset, "its file is missing")
                return
            for log_offset, size, _ in ENTRY.iter_unpack(content):
                record = self._of_entry(queue, offset, log_offset, size)
                if record is not None:
                    yield record
                offset += 1

    def _of_entry(self, queue: QueueView, offset: int, log_offset: int, size: int) -> Record | None:
        if is_filler(size):
            return None
        if not is_written(log_offset, size):
            self._damaged_entry(queue, offset, "nothing is written there")
            return None
        try:
            return self._view.log.record(log_offset, size)
        except RecordError as error:
            self._damaged_entry(queue, offset, str(error))
        except OSError as error:
            self._damaged_entry(queue, offset, error.strerror or str(error))
        return None

    def _damaged_entry(self, queue: QueueView, offset: int, reason: str) -> None:
        self._on_damage(f"{queue.topic}/{queue.queue_id} offset {offset}: {reason}")

    # By walking the log

    def _from_log(self) -> Iterator[Record]:
        log = self._view.log
        total = log.size_bytes
        until_progress = 0
        for found in LogWalk(log, is_crc_checked=True):
            if isinstance(found, Flaw):
                self._on_damage(
                    f"{found.size} bytes of the log at {found.log_offset}: {found.detail}"
                )
                continue
            until_progress -= 1
            if self._progress is not None and until_progress <= 0:
                until_progress = _PROGRESS_STEP_RECORDS
                self._progress(found.log_offset - log.min_offset, total)
            if self._accepts_head(found):
                record = self._decoded(found)
                if record is not None and self._accepts(record):
                    yield record

    def _decoded(self, found: LogRecord) -> Record | None:
        try:
            if found.is_body_intact:
                return found.decode()
            self._on_damage(f"the record at {found.log_offset} does not match its checksum")
        except RecordError as error:
            self._on_damage(f"the record at {found.log_offset}: {error}")
        return None

    def _accepts_head(self, found: LogRecord) -> bool:
        """The cheap conditions, before a record is decoded."""
        selection = self._selection
        return (
            (selection.queue_id is None or found.queue_id == selection.queue_id)
            and _is_within(found.stored_at_ms, selection.stored_from_ms, selection.stored_until_ms)
            and _is_within(found.queue_offset, selection.offset_min, selection.offset_max)
        )

    # Conditions

    def _filtered(self, records: Iterator[Record]) -> Iterator[Record]:
        return (record for record in records if self._accepts(record))

    def _accepts(self, record: Record) -> bool:
        selection = self._selection
        return (
            (selection.topic is None or record.topic == selection.topic)
            and (selection.queue_id is None or record.queue_id == selection.queue_id)
            and _is_within(record.queue_offset, selection.offset_min, selection.offset_max)
            and _is_within(record.stored_at_ms, selection.stored_from_ms, selection.stored_until_ms)
            and (selection.key is None or _has_key(record, selection.key))
            and (selection.message_id is None or _has_id(record, selection.message_id))
        )


def _is_within(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _has_key(record: Record, key: str) -> bool:
    keys = find_stored_property(record.properties, b"KEYS")
    if keys is not None and key in keys.decode("utf-8", "replace").split(" "):
        return True
    return _unique_key(record) == key


def _has_id(record: Record, message_id: str) -> bool:
    offset_id = make_offset_id(record.store_host, record.log_offset)
    return offset_id == message_id.upper() or _unique_key(record) == message_id


def _unique_key(record: Record) -> str | None:
    found = find_stored_property(record.properties, b"UNIQ_KEY")
    return None if found is None else found.decode("utf-8", "replace")
