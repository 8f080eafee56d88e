"""Reading queues: limits, filters, edges, and bytes that cannot be believed."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emberq.record.string_hash import tag_code
from emberq.store.consume_queue import ENTRY, ENTRY_SIZE, TAIL_KEPT_MAX_BYTES
from emberq.store.disk import RealDisk
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits, tag_filter
from emberq.store.results import ReadStatus
from tests.support.stores import (
    TOPIC,
    opened,
    put,
    put_many,
    queue_path,
    read,
    read_all,
    records_of,
    segment_path,
)
from tests.support.waiting import DEADLINE_S, until


def queue_offsets(store: MessageStore) -> list[int]:
    return [record.queue_offset for record in read_all(store)]


def test_offsets_outside_the_queue_are_corrected(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert read(store).status is ReadStatus.NO_MATCHED_LOGIC_QUEUE
        put_many(store, 3)

        at_end = read(store, 3)
        beyond = read(store, 10)
        before = read(store, -1)

    assert (at_end.status, at_end.next_offset) == (ReadStatus.OFFSET_OVERFLOW_ONE, 3)
    assert (beyond.status, beyond.next_offset) == (ReadStatus.OFFSET_OVERFLOW_BADLY, 3)
    assert (before.status, before.next_offset) == (ReadStatus.OFFSET_TOO_SMALL, 0)
    assert (before.min_offset, before.max_offset) == (0, 3)


def test_count_and_size_limit_a_read_but_one_message_always_comes(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for _ in range(5):
            put(store, bytes(1_000))

        assert read(store, count_max=2).count == 2
        assert read(store, size_max_bytes=2_500).count == 2
        assert read(store, size_max_bytes=1).count == 1
        assert read(store, count_max=0).count == 1


def test_a_tag_filter_looks_far_and_says_where_to_go_on(tmp_path: Path) -> None:
    with opened(tmp_path, mapped_file_size_commit_log=1024 * 1024) as store:
        for number in range(900):
            put(store, b"%d" % number, tags="Rare" if number == 700 else "Common")

        found = read(store, accepts=tag_filter([tag_code("Rare")]))
        none = read(store, accepts=tag_filter([tag_code("Other")]))

    assert [record.queue_offset for record in records_of(found)] == [700]
    assert (none.status, none.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 800)


def test_negative_tag_codes_match_by_their_low_bits() -> None:
    accepts = tag_filter([-5])

    assert accepts(-5)
    assert accepts(-5 & 0xFFFFFFFF)
    assert not accepts(5)


def test_messages_of_deleted_segments_are_passed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(40):
            put(store, b"%d" % number * 500)
        store.log.remove_first()

        result = read(store, 0)
        first = records_of(result)[0]

    assert first.log_offset == 16 * 1024
    assert result.next_offset == records_of(result)[-1].queue_offset + 1


def test_only_deleted_messages_is_a_status_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path, mapped_file_size_commit_log=1024 * 1024) as store:
        put_many(store, 1_000)
        put(store, bytes(1024 * 1024 - 1_000))
        put(store, bytes(2_000))
        store.log.remove_first()

        assert read(store, 0).status is ReadStatus.MESSAGE_WAS_REMOVING


def test_hot_messages_are_views_and_not_copies(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 3)
        (part,) = read(store).parts

        assert isinstance(part, memoryview)


def test_a_reader_far_behind_is_told_so(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 200)
        store.reader._hot_window = store.reader.memory_bytes = 2_000

        assert read(store, 0).is_behind_memory
        assert not read(store, 199).is_behind_memory
        assert queue_offsets(store) == list(range(200))


def test_a_reader_far_behind_gets_less_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 200)
        store.reader.memory_bytes = 5_000

        assert read(store, 0).count == 8
        assert read(store, 0, count_max=3).count == 3
        assert read(store, 0, size_max_bytes_on_disk=300).count == 2
        assert read(store, 160).count == 32


# Damage


def overwrite(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A store of several segments that was closed; the first are not walked again."""
    with opened(tmp_path) as store:
        for number in range(60):
            put(store, b"%02d" % number * 400)
    return tmp_path


@pytest.mark.parametrize("hot_window", [0, 2**30])
@pytest.mark.parametrize("at", [0, 4, 12, 20, 28, 84, 100, 700, 891, 895])
def test_a_damaged_record_is_skipped(stopped: Path, at: int, hot_window: int) -> None:
    with opened(stopped) as store:
        size = records_of(read(store))[0].size_bytes
    content = segment_path(stopped).read_bytes()
    position = 3 * size + at
    overwrite(segment_path(stopped), position, bytes([content[position] ^ 1]))

    with opened(stopped) as store:
        store.reader._hot_window = hot_window
        assert queue_offsets(store) == [0, 1, 2, *range(4, 60)]


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY.pack(0, 1, 0),
        ENTRY.pack(5, 897, 0),
        ENTRY.pack(897 * 4, 897, 0),
        ENTRY.pack(897 * 3, 897 * 2, 0),
        ENTRY.pack(897 * 3, 0x7FFFFFFE, 0),
        ENTRY.pack(0, 0x7FFFFFFF, 0),
        ENTRY.pack(2**62, 897, 0),
        ENTRY.pack(16 * 1024 - 4, 897, 0),
    ],
)
def test_a_damaged_entry_serves_nothing_wrong(stopped: Path, entry: bytes) -> None:
    overwrite(queue_path(stopped), 3 * ENTRY_SIZE, entry)

    with opened(stopped) as store:
        assert queue_offsets(store) == [0, 1, 2, *range(4, 60)]


def test_an_entry_never_leads_to_another_topic(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for topic in ("TopicA", "TopicB"):
            put(store, b"same", topic=topic)
    content = queue_path(tmp_path, "TopicB").read_bytes()
    overwrite(queue_path(tmp_path, "TopicA"), 0, content[:ENTRY_SIZE])

    with opened(tmp_path) as store:
        assert read_all(store, "TopicA") == []
        assert len(read_all(store, "TopicB")) == 1


def test_damage_is_logged_once(stopped: Path, caplog: pytest.LogCaptureFixture) -> None:
    overwrite(segment_path(stopped), 897 * 2 + 200, b"!")

    with opened(stopped) as store:
        for _ in range(3):
            read_all(store)

    reports = [record for record in caplog.records if "message_damaged" in record.message]
    assert len(reports) == 1
    assert "offset=2" in reports[0].message


# Cold data


class ColdDisk(RealDisk):
    """Pretends that nothing is cached, and makes threads wait at the disk."""

    def __init__(self) -> None:
        self.may_read = threading.Event()
        self.has_begun = threading.Event()

    def open_mapped(self, path: Path, *, is_writable: bool):  # type: ignore[no-untyped-def]
        file = super().open_mapped(path, is_writable=is_writable)
        read_now = file.read

        def read(position: int, size: int) -> bytes:
            self.has_begun.set()
            assert self.may_read.wait(15)
            return read_now(position, size)

        file.read = read  # type: ignore[method-assign]
        file.read_cached = lambda _position, _size: None  # type: ignore[method-assign,assignment]
        return file


async def test_the_loop_lives_while_a_thread_reads_cold_messages(stopped: Path) -> None:
    disk = ColdDisk()
    disk.may_read.set()
    with opened(stopped, disk) as store:
        disk.may_read.clear()
        disk.has_begun.clear()
        assert store.read(TOPIC, 0, 0, ReadLimits()) is None, "the loop never waits"
        ticks = 0
        reading = asyncio.create_task(
            asyncio.to_thread(store.read_waiting, TOPIC, 0, 0, ReadLimits())
        )
        await until(disk.has_begun.is_set)
        while ticks < 50:  # the thread hangs at the disk, the loop turns
            await asyncio.sleep(0)
            ticks += 1
        assert not reading.done()
        disk.may_read.set()

        result = await reading

    assert (result.status, result.count) == (ReadStatus.FOUND, 32)


class WatchedDisk(RealDisk):
    """Counts how often the loop turned while a thread was within a read of the system."""

    def __init__(self) -> None:
        self.turns = 0  # of the loop
        self.turns_within_reads = 0

    def open_mapped(self, path: Path, *, is_writable: bool):  # type: ignore[no-untyped-def]
        file = super().open_mapped(path, is_writable=is_writable)
        file.read = self._watched(file.read)  # type: ignore[method-assign,assignment]
        file.read_cached = self._watched(file.read_cached)  # type: ignore[method-assign,assignment]
        return file

    def _watched(self, read: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
        def watched(position: int, size: int) -> Any:
            before = self.turns
            content = read(position, size)
            self.turns_within_reads += self.turns - before
            return content

        return watched


async def test_the_loop_lives_while_a_thread_reads_much_from_the_real_disk(tmp_path: Path) -> None:
    size = 32 * 1024 * 1024
    with opened(tmp_path, mapped_file_size_commit_log=size) as store:
        for _ in range(28):
            put(store, bytes(1024 * 1024))
    disk = WatchedDisk()
    with opened(tmp_path, disk, mapped_file_size_commit_log=size) as store:
        store.reader._hot_window = 0
        store.reader.verified_from = store.log.end
        is_done = False

        async def turn() -> None:
            while not is_done:
                disk.turns += 1
                await asyncio.sleep(0)

        turning = asyncio.create_task(turn())
        limits = ReadLimits(count_max=32, size_max_bytes=64 * 1024 * 1024)
        # A read that kept the interpreter would let no turn happen, however often it is repeated;
        # one that does not may find the loop waiting for a processor.
        async with asyncio.timeout(DEADLINE_S):
            while disk.turns_within_reads <= 5:
                result = await asyncio.to_thread(store.read_waiting, TOPIC, 0, 0, limits)
                assert result.count == 28
        is_done = True
        await turning


def test_entries_that_left_the_memory_are_checked_and_served(tmp_path: Path) -> None:
    count = 10 * TAIL_KEPT_MAX_BYTES // ENTRY_SIZE
    with opened(
        tmp_path, mapped_file_size_commit_log=1024 * 1024, flush_interval_consume_queue=1
    ) as store:
        queue = None
        for number in range(count):
            put(store, b"%d" % number)
            queue = store.queues.get(TOPIC, 0)
            assert queue is not None
            while number % 100 == 99 and queue.written_offset < queue.end_offset:
                pass
        assert queue is not None
        assert not queue.is_in_memory(0)
        assert queue_offsets(store) == list(range(count))


def test_messages_much_smaller_than_the_first_one_are_all_served(tmp_path: Path) -> None:
    sizes = [*range(5_000, 0, -900), *([3] * 300), 9_000, *([1] * 200)]
    with opened(tmp_path, mapped_file_size_commit_log=64 * 1024) as store:
        for size in sizes:
            put(store, bytes(size))
    with opened(tmp_path, mapped_file_size_commit_log=64 * 1024) as store:
        queue = store.queues.get(TOPIC, 0)
        assert queue is not None
        assert not queue.is_in_memory(0)
        limits = {"count_max": 1_000, "size_max_bytes": 12_000}
        limits |= {"count_max_on_disk": 1_000, "size_max_bytes_on_disk": 12_000}

        found: list[int] = []
        while len(found) < len(sizes):
            result = read(store, len(found), **limits)
            assert result.size <= 12_000
            found += [len(record.body) for record in records_of(result)]

    assert found == sizes
