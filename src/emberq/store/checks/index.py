"""Log against key index: each key has its entry, each entry its record, each slot its chain.

Entries stand in log order, so one pass over both compares them. Memory: one slot table.
"""

import sys
from array import array
from collections.abc import Iterator
from functools import lru_cache
from operator import ne

from emberq.kernel.key_hashes import KEYS_AT_ONCE_MAX, index_hashes
from emberq.record.properties import find_stored_property
from emberq.record.string_hash import index_hash
from emberq.record.system_flag import TransactionType
from emberq.store.checks.damage import DamagedRanges
from emberq.store.checks.findings import Finding, FindingKind, Findings
from emberq.store.index_layout import IndexHeader, IndexShape
from emberq.store.view.directory import StoreView
from emberq.store.view.index import IndexFileView
from emberq.store.view.walk import LogRecord

_Entry = tuple[int, int]  # log offset, key hash

_TAG_MARK = "T#"  # brokers since 5.5 also index the tag, as the key `T#` and the tag
_TAGS_CACHED_MAX = 4_096


class _Waiting:
    """A record whose keys wait to be hashed together with those of its neighbours."""

    __slots__ = ("key_count", "log_offset", "tag", "topic")

    def __init__(self, log_offset: int, topic: str, key_count: int, tag: str | None) -> None:
        self.log_offset = log_offset
        self.topic = topic
        self.key_count = key_count
        self.tag = tag


class IndexChecks:
    """Give it every record in log order, then `finish`."""

    def __init__(
        self, view: StoreView, findings: Findings, damaged: DamagedRanges, *, is_settled: bool
    ) -> None:
        self._findings = findings
        self._damaged = damaged
        self._is_settled = is_settled
        self._log_min_offset = view.log.min_offset
        self._files = view.index_files()
        self.is_present = bool(self._files)
        self.files_skipped: list[str] = []
        self.entries_checked = 0
        self.unindexed = 0
        self._end_log_offset = -1
        self._released_offset = -1
        self._entries = self._all_entries()
        self._next = next(self._entries, None)
        self._topics: list[str] = []
        self._keys: list[str] = []
        self._waiting: list[_Waiting] = []

    # Per record

    def check(self, record: LogRecord, properties: bytes, tag: bytes | None) -> None:
        if record.system_flag & 0xC == TransactionType.ROLLBACK:
            return
        unique_key = find_stored_property(properties, b"UNIQ_KEY")
        keys = find_stored_property(properties, b"KEYS")
        if unique_key is None and keys is None and tag is None:
            return
        topic = record.topic.decode("utf-8", "replace")
        expected = [] if unique_key is None else [unique_key.decode("utf-8", "replace")]
        if keys is not None:
            expected += filter(None, keys.decode("utf-8", "replace").split(" "))
        if max(len(self._keys) + len(expected), len(self._waiting)) > KEYS_AT_ONCE_MAX:
            self._compare_waiting()
        if len(expected) > KEYS_AT_ONCE_MAX:
            hashes = [index_hash(f"{topic}#{key}") for key in expected]
            waiting = _Waiting(record.log_offset, topic, 0, _text(tag))
            self._compare(waiting, hashes)
            return
        self._topics += [topic] * len(expected)
        self._keys += expected
        self._waiting.append(_Waiting(record.log_offset, topic, len(expected), _text(tag)))

    def _compare_waiting(self) -> None:
        hashes = index_hashes(self._topics, self._keys) if self._keys else []
        at = 0
        for waiting in self._waiting:
            self._compare(waiting, hashes[at : at + waiting.key_count])
            at += waiting.key_count
        self._topics, self._keys, self._waiting = [], [], []

    def _compare(self, waiting: _Waiting, hashes: list[int]) -> None:
        log_offset = waiting.log_offset
        entry = self._next
        while entry is not None and entry[0] < log_offset:
            self._without_record(entry[0])
            entry = self._next = next(self._entries, None)
        found: list[int] = []
        while entry is not None and entry[0] == log_offset:
            found.append(entry[1])
            entry = self._next = next(self._entries, None)
        self.entries_checked += len(found)
        if found == hashes:
            return
        if waiting.tag is not None:
            tag_hash = _tag_hash(waiting.topic, waiting.tag)
            if found == [*hashes, tag_hash]:
                return
            found = [key_hash for key_hash in found if key_hash != tag_hash or tag_hash in hashes]
        for key_hash in set(hashes) - set(found):
            self._missing(log_offset, waiting.topic, key_hash, is_behind=entry is None)
        for key_hash in set(found) - set(hashes):
            self._add(
                FindingKind.INDEX_ENTRY_WITHOUT_KEY,
                f"the record at {log_offset} has no key of hash {key_hash}",
                log_offset,
            )

    def _missing(self, log_offset: int, topic: str, key_hash: int, *, is_behind: bool) -> None:
        if self.files_skipped:
            return  # it may be there
        if is_behind and not self._is_settled and log_offset >= self._end_log_offset:
            self.unindexed += 1
            return
        self._findings.add(
            Finding(
                kind=FindingKind.KEY_NOT_IN_INDEX,
                detail=f"a key of the record at {log_offset} (hash {key_hash}) is not in the index",
                log_offset=log_offset,
                topic=topic,
            )
        )

    def _without_record(self, log_offset: int) -> None:
        if log_offset < self._log_min_offset or self._damaged.hold(log_offset):
            return
        self._add(
            FindingKind.INDEX_ENTRY_WITHOUT_RECORD,
            f"no record with a key is at {log_offset}",
            log_offset,
        )

    def finish(self, log_end: int) -> None:
        self._compare_waiting()
        while self._next is not None:
            # What was indexed after the walk, or lies where recovery is to cut.
            if self._next[0] < log_end or self._is_settled:
                self._without_record(self._next[0])
            self._next = next(self._entries, None)

    # Files: entries in order, chains on the way

    def _all_entries(self) -> Iterator[_Entry]:
        for file in self._files:
            try:
                header = file.header()
                shape = None if header is None else file.shape(header)
                if header is None or shape is None:
                    self._unclear(file, header)
                    continue
                yield from self._of_file(file, header, shape)
            except OSError as error:
                self.files_skipped.append(file.path.name)
                self._add(
                    FindingKind.INDEX_UNREADABLE, error.strerror or str(error), file=file.path.name
                )

    def _unclear(self, file: IndexFileView, header: IndexHeader | None) -> None:
        if header is not None and header.next_number == 1:
            return  # nothing in it yet
        self.files_skipped.append(file.path.name)
        detail = "header and entries do not fit together"
        self._add(FindingKind.INDEX_HEADER, detail, file=file.path.name)

    def _of_file(
        self, file: IndexFileView, header: IndexHeader, shape: IndexShape
    ) -> Iterator[_Entry]:
        self._end_log_offset = max(self._end_log_offset, header.end_log_offset)
        newest = array("i", bytes(4 * shape.slots))
        slots = shape.slots
        held: _Entry | None = None  # until its successor shows that it is in order
        held_offset = released_offset = self._released_offset
        for first, chunk in file.entry_chunks(header, shape):
            for number, (key_hash, log_offset, seconds, previous) in enumerate(chunk, first):
                slot = key_hash % slots
                if newest[slot] != previous or key_hash < 0 or seconds < 0:
                    self._broken_chain(file, number, previous, newest[slot], log_offset)
                newest[slot] = number
                if log_offset < released_offset:
                    self._out_of_order(file, log_offset)
                    continue
                # Of two that are out of order, the one that fits its other side is right.
                if log_offset < held_offset:
                    self._out_of_order(file, held_offset)
                elif held is not None:
                    yield held
                    released_offset = held_offset
                held = (log_offset, key_hash)
                held_offset = log_offset
        if held is not None:
            yield held
        self._released_offset = max(held_offset, released_offset)
        self._check_slots(file, shape, newest)

    def _broken_chain(
        self, file: IndexFileView, number: int, previous: int, expected: int, log_offset: int
    ) -> None:
        self._add(
            FindingKind.INDEX_CHAIN,
            f"entry {number} follows entry {previous}, not {expected}",
            log_offset,
            file.path.name,
        )

    def _out_of_order(self, file: IndexFileView, log_offset: int) -> None:
        self._add(
            FindingKind.INDEX_CHAIN,
            f"an entry names {log_offset}, out of order",
            log_offset,
            file.path.name,
        )

    def _check_slots(self, file: IndexFileView, shape: IndexShape, newest: "array[int]") -> None:
        content = file.slot_table(shape)
        slots = array("i", content[: len(content) - len(content) % 4])
        if sys.byteorder == "little":
            slots.byteswap()
        if slots == newest:
            return
        if not self._is_settled and file is self._files[-1]:
            return  # still written to
        wrong = abs(len(slots) - len(newest)) + sum(map(ne, slots, newest))
        self._add(
            FindingKind.INDEX_CHAIN,
            f"{wrong} slots of {shape.slots} do not lead to their newest entry",
            file=file.path.name,
            count=wrong,
        )

    def _add(
        self,
        kind: FindingKind,
        detail: str,
        log_offset: int | None = None,
        file: str | None = None,
        count: int = 1,
    ) -> None:
        self._findings.add(
            Finding(kind=kind, detail=detail, log_offset=log_offset, file=file, count=count)
        )


@lru_cache(maxsize=_TAGS_CACHED_MAX)
def _tag_hash(topic: str, tag: str) -> int:
    return index_hash(f"{topic}#{_TAG_MARK}{tag}")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
