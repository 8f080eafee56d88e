"""The key index: from a topic and a key to the log offsets of messages that carry it.

Files of equal size, each with a hash table whose entries are in log order; the newest one grows.
Layout in docs/formats/index-file.md.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from emberq.errors import StoreDamaged
from emberq.kernel import hash_record_keys
from emberq.kernel.key_hashes import KEYS_AT_ONCE_MAX, TAG_MARK
from emberq.record.string_hash import index_hash
from emberq.store.disk import Disk
from emberq.store.dispatch import Dispatched
from emberq.store.index_check import CheckedEntries
from emberq.store.index_file import IndexFile
from emberq.store.index_layout import (
    NAME_DIGITS,
    IndexHeader,
    IndexShape,
    compare_with_entries,
    header_after,
    read_header,
    with_end_of_entries,
)

log = logging.getLogger(__name__)

# Entries that wait to be written. Above it the index takes no more and falls behind. A flood of
# batches makes 25 MB of them a second, and a sync of the disk may last seconds.
UNWRITTEN_MAX_BYTES = 256 * 1024 * 1024


class KeyIndex:
    """Records are added on the loop's thread and written on the flusher's; any thread may find."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        *,
        slots: int,
        entries_max: int,
        new_name: Callable[[], str],
        is_writable: bool = True,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._shape = IndexShape(slots, entries_max)
        self._new_name = new_name
        self._is_writable = is_writable
        # Replaced, never changed in place, so that any thread may walk it. Oldest first.
        self._files: tuple[IndexFile, ...] = ()
        self._files_lock = Lock()  # guards replacing it: the loop adds, retention removes
        # Records that start below this are indexed, or have nothing to index.
        self.end_log_offset = 0
        # The same for what a crash cannot take away, and the store time of its last entry.
        self.durable_log_offset = 0
        self.durable_timestamp_ms = 0
        # Records were refused for lack of memory: call `resume` and add again from the end.
        self.is_behind = False

    # Opening and closing

    def load(self, *, is_after_crash: bool, safe_log_offset: int) -> list[str]:
        """Open the files and find out what they hold; returns what was wrong with them.

        `safe_log_offset`: records that start below it were indexed and synced. After a crash
        nothing else is believed: entries behind it, and from the first torn one on, are cut off.
        If the last file is full, its last record is taken out: nothing tells whether it had more.
        Whatever happened, the index then holds exactly the records below `end_log_offset`.

        Raises:
            OSError
        """
        problems: list[str] = []
        is_cut = is_after_crash and self._is_writable
        for path in self._paths():
            try:
                self._files += (self._opened(path, is_compared=not is_cut),)
            except StoreDamaged as damaged:
                problems.append(str(damaged))
                if self._is_writable:
                    # Later files continue this one: without it they have a gap before them.
                    self._remove_from(path, str(damaged))
                    break
        is_full = bool(self._files) and self._files[-1].is_full
        if is_full and self._is_writable:
            # Keys of its last record may have gone to a next file, which is gone itself.
            last_record = self._files[-1].header.end_log_offset
            end = min(safe_log_offset, last_record) if is_cut else last_record
            problems += self._cut(end, is_complete=not problems)
        elif is_cut:
            problems += self._cut(safe_log_offset, is_complete=not problems)
        else:
            self.end_log_offset = self._end_of_entries()
            if self._files and not is_full and not problems:
                self.end_log_offset = max(self.end_log_offset, safe_log_offset)
            if self._files and self._is_writable:
                self._files[-1].load_slots()
                # Official brokers sync full files only, even when they stop.
                self._files[-1].note_unsynced()
        self._note_durable(self.end_log_offset)
        return problems

    def close(self) -> None:
        """Close the files; what is unwritten is lost."""
        files, self._files = self._files, ()
        for file in files:
            file.close()

    def _paths(self) -> list[Path]:
        names = self._disk.list(self._folder)
        return [
            self._folder / name for name in names if name.isdigit() and len(name) == NAME_DIGITS
        ]

    def _opened(self, path: Path, *, is_compared: bool) -> IndexFile:
        file = self._disk.open(path, is_writable=self._is_writable)
        try:
            header = read_header(file, self._shape)
            if is_compared:
                compare_with_entries(file, self._shape, header)
        except BaseException:
            file.close()
            raise
        return IndexFile(
            self._disk,
            path,
            self._shape,
            header=with_end_of_entries(file, self._shape, header),
            file=file,
            end_on_disk_ms=header.end_timestamp_ms,
        )

    def _remove_from(self, first: Path, reason: str) -> None:
        """Remove a file and all that are newer, opened or not."""
        for path in self._paths():
            if path >= first:
                log.warning("index_file_removed path=%s reason=%s", path, reason)
                self._disk.remove(path)

    def _end_of_entries(self) -> int:
        for file in reversed(self._files):
            if file.header.next_number > 1:
                return file.header.end_log_offset + 1
        return 0

    def _note_durable(self, log_offset: int) -> None:
        self.durable_log_offset = log_offset
        self.durable_timestamp_ms = _latest_end_of(self._files)

    # Cutting: while nothing else uses the index

    def truncate(self, log_offset: int) -> None:
        """Forget records that start at or behind an offset. Raises OSError."""
        if log_offset < self.end_log_offset:
            self.sync()
            self._cut(log_offset, is_complete=True)
            self._note_durable(self.end_log_offset)

    def _cut(self, end_log_offset: int, *, is_complete: bool) -> list[str]:
        """Keep what is intact and of records below an offset; returns what was not intact.

        `is_complete`: no file is missing, so that records without an entry have none to have.
        """
        problems: list[str] = []
        while self._files:
            last = self._files[-1]
            checked = last.check(end_log_offset)
            if checked.damage:
                problems.append(f"{last.path}: {checked.damage}")
                is_complete = False
            self._files = self._files[:-1]
            last.close()
            # An index without any file would seem to be lost, so the first one stays, empty.
            if checked.header.next_number > 1 or not self._files:
                self._files += (self._rewritten(last, checked),)
                break
            log.info("index_file_cut path=%s end=%d", last.path, end_log_offset)
            self._disk.remove(last.path)
            if not is_complete:
                # The last record of the file before may have had more keys in this one.
                last_record = self._files[-1].header.end_log_offset
                end_log_offset = min(end_log_offset, last_record)
        problems += self._compare_older_files()
        has_all = is_complete and not problems and self._files
        self.end_log_offset = end_log_offset if has_all else self._end_of_entries()
        if self._files:
            self._disk.sync_folder(self._folder)
        return problems

    def _rewritten(self, former: IndexFile, checked: CheckedEntries) -> IndexFile:
        """A file with the entries that stay, its slots and header made to agree with them."""
        file = IndexFile(
            self._disk,
            former.path,
            self._shape,
            header=checked.header,
            file=self._disk.open(former.path, is_writable=True),
            end_on_disk_ms=min(former.end_on_disk_ms, checked.header.end_timestamp_ms),
        )
        file.rewrite_head(checked)
        return file

    def _compare_older_files(self) -> list[str]:
        """Check what was synced long ago; a damaged file takes the newer ones with it."""
        for index, file in enumerate(self._files[:-1]):
            try:
                file.compare_with_entries()
            except StoreDamaged as damaged:
                for newer in self._files[index:]:
                    newer.close()
                self._files = self._files[:index]
                self._remove_from(file.path, str(damaged))
                return [str(damaged)]
        return []

    # Adding: the loop's thread

    @property
    def unwritten_bytes(self) -> int:
        """Memory that the flusher can free by writing."""
        total = 0
        for file in reversed(self._files):
            if file.is_full and file.is_settled:
                break
            total += file.unwritten_bytes
        return total

    def add(self, records: list[Dispatched]) -> None:
        """Index the keys of records that follow one another in the log; known ones are skipped.

        Above UNWRITTEN_MAX_BYTES nothing is taken and `is_behind` says so.
        """
        if not records or not self._takes_more():
            return
        end_log_offset = self.end_log_offset
        if records[0].log_offset < end_log_offset:
            records = [record for record in records if record.log_offset >= end_log_offset]
        self._append(*hash_record_keys(records))
        if records:
            self.end_log_offset = max(end_log_offset, records[-1].log_offset + records[-1].size)

    def add_hashed(
        self,
        hashes: list[int],
        log_offsets: list[int],
        times_ms: list[int],
        end_log_offset: int,
    ) -> None:
        """Index keys that are hashed already, of records that the index does not have."""
        if self._takes_more():
            self._append(hashes, log_offsets, times_ms)
            self.end_log_offset = end_log_offset

    def _takes_more(self) -> bool:
        if self.is_behind:
            return False
        if self.unwritten_bytes > UNWRITTEN_MAX_BYTES:
            log.warning(
                "index_behind end=%d unwritten=%d", self.end_log_offset, UNWRITTEN_MAX_BYTES
            )
            self.is_behind = True
            return False
        if not self._files:
            self._start_file()  # also without keys: no file would mean that the index was lost
        return True

    def settle(self, log_end: int) -> None:
        """The log was walked to its end: what is behind it goes, all before it is indexed.

        Raises:
            OSError
        """
        if log_end < self.end_log_offset:
            self.truncate(log_end)
        elif not self.is_behind:
            self.end_log_offset = log_end

    def resume(self) -> None:
        """Take records again, from `end_log_offset` on."""
        self.is_behind = False

    def _append(self, hashes: list[int], log_offsets: list[int], times_ms: list[int]) -> None:
        at, count = 0, len(hashes)
        if 0 < count <= min(self._files[-1].room, KEYS_AT_ONCE_MAX):
            self._files[-1].append(hashes, log_offsets, times_ms)
            return
        while at < count:
            file = self._files[-1]
            if file.is_full:
                file = self._start_file()
            behind = at + min(file.room, KEYS_AT_ONCE_MAX)
            file.append(hashes[at:behind], log_offsets[at:behind], times_ms[at:behind])
            at = behind

    def _start_file(self) -> IndexFile:
        """Begin a file in memory; the flusher makes it on disk."""
        name = self._new_name()
        header = IndexHeader()
        if self._files:
            last = self._files[-1]
            header = header_after(last.header)
            if name <= last.path.name:  # the clock was put back, or files fill within one tick
                name = f"{int(last.path.name) + 1:0{NAME_DIGITS}d}"
        file = IndexFile(self._disk, self._folder / name, self._shape, header=header)
        with self._files_lock:
            self._files += (file,)
        return file

    # Writing: the flusher's thread

    def write_entries(self) -> int:
        """Move new entries to the files; returns the bytes written. Raises OSError.

        Slots and headers wait for `sync`.
        """
        return sum(file.write_entries() for file in self._files if not file.is_settled)

    @property
    def is_sync_due(self) -> bool:
        """Whether a full file waits for its slots and header, which are kept in memory."""
        newest_full = next((file for file in reversed(self._files) if file.is_full), None)
        return newest_full is not None and not newest_full.is_settled

    def write(self) -> int:
        """Move new entries to the files and finish full files; returns the bytes written.

        For recovery, after which everything is synced. Raises OSError.
        """
        written = 0
        for file in self._files:
            if not file.is_settled:
                written += file.write_entries()
                if file.is_full:
                    written += file.write_head()
                    file.release_slots()
        return written

    def sync(self) -> None:
        """Make everything durable that was added before the call, but the files' end times.

        Raises:
            OSError
        """
        self.sync_written(self.write_whole())

    def write_whole(self) -> int:
        """Write everything that was added; returns the log offset below which that is all.

        Raises:
            OSError: what was not written is written by the next call.
        """
        end_log_offset = self.end_log_offset
        for file in self._files:
            if not file.is_settled:
                file.write_entries()
                file.write_head()
        return end_log_offset

    def sync_written(self, end_log_offset: int) -> None:
        """Make durable what `write_whole` wrote. Raises OSError."""
        files = self._files
        is_new_in_folder = False
        for file in files:
            if not file.is_settled:
                file.sync()
                file.release_slots()
            is_new_in_folder |= file.is_new_in_folder
        if is_new_in_folder:
            self._disk.sync_folder(self._folder)
            for file in files:
                file.is_new_in_folder = False
        self._note_durable(end_log_offset)

    def write_ends(self) -> None:
        """Name the files' end times; call it when the checkpoint covers what is durable.

        After a crash official brokers delete a file that ends later than the checkpoint says,
        with all the old keys that it holds. Raises OSError.
        """
        for file in self._files:
            file.write_end(self.durable_timestamp_ms)

    # Finding: any thread

    def find(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[int]:
        """Log offsets of records with a key, stored within a time range, newest first.

        Times count in seconds, and other keys may have the same hash: compare the records. May
        wait for the disk. Raises OSError.
        """
        key_hash = index_hash(f"{topic}#{key}")
        found: list[int] = []
        for file in reversed(self._files):
            if not file.hold():
                continue
            try:
                header = file.header
                if begin_ms <= header.end_timestamp_ms and end_ms >= header.begin_timestamp_ms:
                    found += file.find(key_hash, max_count - len(found), begin_ms, end_ms)
            finally:
                file.let_go()
            if header.begin_timestamp_ms < begin_ms or len(found) >= max_count:
                break
        return found

    def find_tag(
        self, topic: str, tag: str, max_count: int, begin_ms: int, end_ms: int
    ) -> list[int]:
        """The same by tag, for messages that were indexed by brokers since 5.5."""
        return self.find(topic, TAG_MARK + tag, max_count, begin_ms, end_ms)

    @property
    def last_indexed(self) -> tuple[int, int]:
        """Store time and log offset of the newest record with a key; zeros if there is none."""
        if not self._files:
            return 0, 0
        header = self._files[-1].header
        return header.end_timestamp_ms, header.end_log_offset

    # Retention

    def remove_before(self, log_min_offset: int) -> None:
        """Remove files of which no record is left in the log, never the newest. Raises OSError."""
        for file in self._files[:-1]:
            if file.header.end_log_offset >= log_min_offset or not file.is_settled:
                break
            with self._files_lock:
                self._files = self._files[1:]
            log.info("index_file_expired path=%s", file.path)
            file.close()
            self._disk.remove(file.path)


def _latest_end_of(files: tuple[IndexFile, ...]) -> int:
    """In memory or on disk: the clock may have been put back between two records."""
    ends = [(file.written_header.end_timestamp_ms, file.end_on_disk_ms) for file in files]
    return max(map(max, ends), default=0)
