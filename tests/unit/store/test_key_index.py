import logging
import threading
from pathlib import Path

import pytest

from emberq.record.string_hash import index_hash
from emberq.store import key_index
from emberq.store.dispatch import Dispatched
from emberq.store.index_layout import HEADER_SIZE, IndexShape
from tests.golden.index.captured import VERSIONS, CapturedIndex
from tests.support.index_records import (
    ALL_TIME,
    FIRST_STORED_AT_MS,
    assert_answers,
    index_in,
    indexed_record,
)
from tests.support.power_loss_disk import PowerLossDisk

T = FIRST_STORED_AT_MS


def records(count: int, first: int = 0) -> list[Dispatched]:
    return [
        indexed_record(number * 100, f"unique-{number}", stored_at_ms=T + number * 10)
        for number in range(first, first + count)
    ]


# The official format


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_files_are_those_of_the_official_broker(tmp_path: Path, version: str, batch: int) -> None:
    captured = CapturedIndex(version)
    index = index_in(
        tmp_path,
        slots=captured.slots,
        entries_max=captured.entries_max,
        names=captured.files,
    )

    for at in range(0, len(captured.records), batch):
        index.add(captured.records[at : at + batch])
        index.write()
    index.sync()
    index.write_ends()

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == captured.files


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_after_crash", [False, True])
def test_an_official_index_is_read_and_continued(
    tmp_path: Path, version: str, is_after_crash: bool
) -> None:
    captured = CapturedIndex(version)
    captured.put_into(tmp_path / "index")
    last = captured.records[-1]
    end = last.log_offset + last.size
    index = index_in(
        tmp_path / "index",
        slots=captured.slots,
        entries_max=captured.entries_max,
        names=["20300101000000000"],
        is_loaded=False,
    )

    assert index.load(is_after_crash=is_after_crash, safe_log_offset=end) == []
    assert index.end_log_offset == end
    assert_answers(index, captured.records, [])

    more = [indexed_record(end + n * 100, f"new-{n}", topic="Orders") for n in range(100)]
    index.add(more)
    assert_answers(index, captured.records + more, [])


def test_tags_have_entries_of_their_own(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add([indexed_record(0, tags="A", topic="SM")])

    assert index.find_tag("SM", "A", 10, *ALL_TIME) == [0]
    assert index.find("SM", "A", 10, *ALL_TIME) == []
    assert index_hash("SM#T#A") == 1846512087


def test_keys_are_split_by_blanks_and_rolled_back_halves_have_none(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(
        [
            indexed_record(0, "u", keys=" a  b "),
            indexed_record(100, "v", keys="a", is_indexed=False),
            indexed_record(200),
            indexed_record(300, ""),
        ]
    )

    assert index.find("TopicA", "a", 10, *ALL_TIME) == [0]
    assert index.find("TopicA", "b", 10, *ALL_TIME) == [0]
    assert index.find("TopicA", "v", 10, *ALL_TIME) == []
    assert index.find("TopicA", "", 10, *ALL_TIME) == [300]  # a unique key may be empty
    assert index.last_indexed == (T, 300)
    assert index.end_log_offset == 400


# Look-ups over several files


def test_a_look_up_goes_from_the_newest_file_back_until_it_has_enough(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries_max=4)
    index.add([indexed_record(n, "key", stored_at_ms=T + n * 1000, size=1) for n in range(10)])

    assert index.find("TopicA", "key", 100, *ALL_TIME) == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert index.find("TopicA", "key", 4, *ALL_TIME) == [9, 8, 7, 6]
    assert index.find("TopicA", "key", 100, T + 2000, T + 5000) == [5, 4, 3, 2]
    assert index.find("TopicA", "key", 100, T + 20_000, T + 30_000) == []
    assert index.find("TopicA", "key", 100, 0, T - 1) == []


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    index = index_in(tmp_path)

    assert index.find("TopicA", "key", 10, *ALL_TIME) == []
    assert index.last_indexed == (0, 0)
    assert index.end_log_offset == 0
    assert list(tmp_path.iterdir()) == []


# Adding


def test_records_that_are_indexed_already_are_skipped(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(5))
    index.add(records(8))

    assert index.end_log_offset == 800
    assert_answers(index, records(8), [])


def test_file_names_only_grow(tmp_path: Path) -> None:
    names = ["20260101000000005", "20260101000000005", "20250101000000000"]
    index = index_in(tmp_path, entries_max=4, names=names)
    index.add(records(9))
    index.sync()

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "20260101000000005",
        "20260101000000006",
        "20260101000000007",
    ]


def test_above_the_limit_of_memory_the_index_falls_behind_and_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(key_index, "UNWRITTEN_MAX_BYTES", 99)
    index = index_in(tmp_path, entries_max=4)
    index.add(records(5))
    assert index.unwritten_bytes == 100

    with caplog.at_level(logging.WARNING):
        index.add(records(1, first=5))
        index.add(records(1, first=6))
    assert index.is_behind
    assert "index_behind" in caplog.text
    assert index.end_log_offset == 500

    index.write()
    assert index.unwritten_bytes == 0
    index.add(records(1, first=7))
    assert index.end_log_offset == 500, "a gap must not be skipped"

    index.resume()
    index.add(records(3, first=5))
    assert_answers(index, records(8), [])


# Durability


def test_what_is_synced_is_named_and_nothing_more(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(3))
    index.write()
    assert (index.durable_log_offset, index.durable_timestamp_ms) == (0, 0)

    index.sync()
    assert (index.durable_log_offset, index.durable_timestamp_ms) == (300, T + 20)

    index.add([indexed_record(300, stored_at_ms=T + 99)])  # without a key
    index.sync()
    assert (index.durable_log_offset, index.durable_timestamp_ms) == (400, T + 20)


def test_the_header_on_disk_is_never_newer_than_the_last_sync(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(3))
    index.sync()
    (path,) = tmp_path.iterdir()
    synced = path.read_bytes()[:HEADER_SIZE]

    index.add(records(3, first=3))
    index.write()

    assert path.read_bytes()[:HEADER_SIZE] == synced


def test_a_failed_sync_claims_nothing(tmp_path: Path) -> None:
    disk = PowerLossDisk()
    index = index_in(tmp_path, disk=disk)
    index.add(records(3))

    def fail(_path: Path) -> None:
        raise OSError(5, "Input/output error")

    disk.before_sync = fail
    with pytest.raises(OSError, match="Input/output"):
        index.sync()

    assert index.durable_log_offset == 0


# Loading


def reloaded(folder: Path, *, is_after_crash: bool = False, safe: int = 0) -> key_index.KeyIndex:
    index = index_in(folder, is_loaded=False)
    index.load(is_after_crash=is_after_crash, safe_log_offset=safe)
    return index


def test_after_a_clean_stop_everything_is_there(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(50))
    index.sync()
    index.write_ends()
    index.close()

    again = reloaded(tmp_path, safe=5000)
    assert again.end_log_offset == again.durable_log_offset == 5000
    assert again.durable_timestamp_ms == T + 490
    assert_answers(again, records(50), [])

    again.add(records(60))
    assert_answers(again, records(60), [])


def test_records_without_keys_count_as_indexed(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add([indexed_record(0, size=700)])
    index.sync()
    index.close()

    assert reloaded(tmp_path, safe=700).end_log_offset == 700
    assert reloaded(tmp_path, is_after_crash=True, safe=700).end_log_offset == 700


@pytest.mark.parametrize("is_after_crash", [False, True])
def test_an_index_whose_files_are_gone_starts_again(tmp_path: Path, is_after_crash: bool) -> None:
    index = reloaded(tmp_path / "none", is_after_crash=is_after_crash, safe=5000)

    assert index.end_log_offset == 0
    index.add(records(3))
    index.sync()
    assert_answers(index, records(3), [])


def test_after_a_crash_entries_behind_the_safe_offset_go(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(50))
    index.sync()
    index.close()

    again = reloaded(tmp_path, is_after_crash=True, safe=3000)
    assert again.end_log_offset == 3000
    assert len(list(tmp_path.iterdir())) == 2  # the third file had only later entries
    assert_answers(again, records(30), records(20, first=30))

    again.add(records(50))
    again.sync()
    assert_answers(again, records(50), [])


def test_after_a_crash_nothing_safe_means_nothing_kept(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(50))
    index.sync()
    index.close()

    again = reloaded(tmp_path, is_after_crash=True, safe=0)

    assert again.end_log_offset == 0
    assert_answers(again, [], records(50))


def test_a_torn_entry_below_the_safe_offset_ends_the_index_there(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries_max=100)
    index.add([indexed_record(n * 100, f"u{n}", keys="a b") for n in range(20)])
    index.sync()
    index.close()
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    at = IndexShape(8, 100).position_of(3 * 10 + 2)  # the second key of record 10
    content[at : at + 20] = bytes(20)
    path.write_bytes(content)

    again = index_in(tmp_path, entries_max=100, is_loaded=False)
    problems = again.load(is_after_crash=True, safe_log_offset=2000)

    assert problems == [f"{path}: entry 32 of 60 is torn"]
    assert again.end_log_offset == 901  # record 10 went with its torn entry
    expected = [indexed_record(n * 100, f"u{n}", keys="a b") for n in range(20)]
    assert_answers(again, expected[:10], expected[10:])
    again.add(expected)
    assert_answers(again, expected, [])


@pytest.mark.parametrize("is_after_crash", [False, True])
@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_file_that_makes_no_sense_goes_with_those_behind_it(
    tmp_path: Path, is_after_crash: bool, damaged: int, caplog: pytest.LogCaptureFixture
) -> None:
    index = index_in(tmp_path)
    index.add(records(50))
    index.sync()
    index.close()
    path = sorted(tmp_path.iterdir())[damaged]
    path.write_bytes(path.read_bytes()[:-1])

    again = index_in(tmp_path, is_loaded=False)
    problems = again.load(is_after_crash=is_after_crash, safe_log_offset=5000)

    assert len(problems) == 1
    assert str(path) in problems[0]
    assert "index_file_removed" in caplog.text
    kept = max(19 * damaged - 1, 0)  # the last one of a full file is indexed again
    assert again.end_log_offset in (kept * 100, kept * 100 - 99)
    assert_answers(again, records(kept), records(50 - kept, first=kept))
    again.add(records(50))
    assert_answers(again, records(50), [])


def test_a_damaged_older_file_is_noticed_after_a_crash(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(50))
    index.sync()
    index.close()
    path = sorted(tmp_path.iterdir())[1]
    content = bytearray(path.read_bytes())
    content[-20:] = bytes(20)  # its last entry
    path.write_bytes(content)

    again = index_in(tmp_path, is_loaded=False)
    problems = again.load(is_after_crash=True, safe_log_offset=5000)

    assert len(problems) == 1
    assert len(list(tmp_path.iterdir())) == 1
    again.add(records(50))
    assert_answers(again, records(50), [])


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "123").write_text("mine")
    index = index_in(tmp_path)
    index.add(records(3))
    index.sync()
    index.close()

    again = reloaded(tmp_path, is_after_crash=True, safe=0)

    assert (tmp_path / "notes.txt").read_text() == (tmp_path / "123").read_text() == "mine"
    assert again.end_log_offset == 0


def test_read_only_nothing_is_changed(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(50))
    index.sync()
    index.close()
    first, *_ = sorted(tmp_path.iterdir())
    first.write_bytes(b"damaged")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    reader = index_in(tmp_path, is_writable=False, is_loaded=False)
    problems = reader.load(is_after_crash=True, safe_log_offset=0)

    assert len(problems) == 1
    assert reader.find("TopicA", "unique-30", 10, *ALL_TIME) == [3000]
    reader.close()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


# Truncation and retention


def test_truncation_forgets_later_records_for_good(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(50))

    index.truncate(2500)

    assert index.end_log_offset == index.durable_log_offset == 2500
    assert_answers(index, records(25), records(25, first=25))
    others = [indexed_record(2500 + n * 100, f"other-{n}") for n in range(40)]
    index.add(others)
    index.sync()
    index.close()
    assert_answers(reloaded(tmp_path, safe=6500), records(25) + others, records(25, first=25))


def test_truncation_behind_the_end_changes_nothing(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(50))
    index.truncate(5000)

    assert index.end_log_offset == 5000
    assert index.unwritten_bytes == 1000


def test_files_of_deleted_records_are_removed_but_never_the_newest(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(50))
    index.sync()

    index.remove_before(1800)  # the last record of the first file starts there
    assert len(list(tmp_path.iterdir())) == 3
    index.remove_before(1801)
    assert len(list(tmp_path.iterdir())) == 2
    index.remove_before(1_000_000)
    assert len(list(tmp_path.iterdir())) == 1

    assert_answers(index, records(12, first=38), records(38))


def test_a_file_that_is_not_on_disk_yet_is_removed_later(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    index.add(records(50))
    index.remove_before(1_000_000)
    assert_answers(index, records(50), [])

    index.sync()
    index.remove_before(1_000_000)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_reader_keeps_the_file_that_is_removed_under_it(tmp_path: Path) -> None:
    index = index_in(tmp_path, entries_max=1000)
    index.add(records(999))
    index.sync()
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                index.find("TopicA", "unique-5", 10, *ALL_TIME)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for first in range(999, 20_000, 999):
        index.add(records(999, first=first))
        index.sync()
        index.remove_before(first * 100)
    stop.set()
    thread.join()

    assert failures == []
