"""Walking over damaged logs: what is skipped, and what is still found."""

import os
from pathlib import Path

import pytest

from emberq.record.encode import encode_record
from emberq.record.host import pack_host
from emberq.store.disk import RealDisk
from emberq.store.view.files import ReadOnlyFiles
from emberq.store.view.log import LogView
from emberq.store.view.walk import WINDOW_SIZE_BYTES, Flaw, FlawKind, LogRecord, LogWalk
from tests.support.store_builder import StoreBuilder, overwrite

SEGMENT = 4096


def walk_of(root: Path, *, is_crc_checked: bool = True) -> tuple[list[LogRecord | Flaw], LogWalk]:
    files = ReadOnlyFiles(RealDisk())
    walk = LogWalk(LogView(files, [root / "commitlog"]), is_crc_checked=is_crc_checked)
    found = list(walk)
    files.close()
    return found, walk


def segment(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    builder = StoreBuilder(tmp_path, segment_size=SEGMENT)
    for number in range(60):
        builder.add(body=b"b%d" % number * 20, TAGS="a")
    builder.write()
    return builder


def offsets_of(found: list[LogRecord | Flaw]) -> list[int]:
    return [item.log_offset for item in found if isinstance(item, LogRecord)]


def flaws_of(found: list[LogRecord | Flaw]) -> list[Flaw]:
    return [item for item in found if isinstance(item, Flaw)]


def test_a_sound_log_has_every_record_in_order_and_no_flaw(builder: StoreBuilder) -> None:
    found, walk = walk_of(builder.root)

    assert offsets_of(found) == [placed.log_offset for placed in builder.placed]
    assert flaws_of(found) == []
    assert walk.tail is None
    assert walk.end == builder.end


def test_records_carry_what_queues_and_index_need(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add("first", 1)
    builder.add("orders", 3, b"body", TAGS="a", KEYS="k")
    builder.write()

    found, _ = walk_of(tmp_path)

    record = found[1]
    assert isinstance(record, LogRecord)
    assert (record.topic, record.queue_id, record.queue_offset) == (b"orders", 3, 0)
    assert record.properties == b"TAGS\x01a\x02KEYS\x01k\x02"
    assert record.decode().body == b"body"


@pytest.mark.parametrize("at", [0, 3, 4, 7, 28, 35, 84])
def test_a_record_with_a_broken_head_is_skipped_alone(builder: StoreBuilder, at: int) -> None:
    broken = builder.placed[5]
    original = segment(builder.root).read_bytes()[broken.log_offset + at]
    overwrite(segment(builder.root), broken.log_offset + at, bytes((original ^ 0x55,)))

    found, walk = walk_of(builder.root)

    assert len(offsets_of(found)) == len(builder.placed) - 1
    (flaw,) = flaws_of(found)
    assert (flaw.log_offset, flaw.size) == (broken.log_offset, broken.size)
    assert flaw.kind is FlawKind.DAMAGED
    assert walk.tail is None


def test_a_flipped_bit_in_a_body_is_told_by_the_checksum_only(builder: StoreBuilder) -> None:
    broken = builder.placed[5]
    overwrite(segment(builder.root), broken.log_offset + 90, b"\xff")

    checked, _ = walk_of(builder.root)
    unchecked, _ = walk_of(builder.root, is_crc_checked=False)

    damaged = [item for item in checked if isinstance(item, LogRecord) and not item.is_body_intact]
    assert [record.log_offset for record in damaged] == [broken.log_offset]
    assert flaws_of(checked) == []
    assert all(isinstance(item, LogRecord) and item.is_body_intact for item in unchecked)


def test_zeros_between_records_are_a_hole(builder: StoreBuilder) -> None:
    first, last = builder.placed[3], builder.placed[6]
    overwrite(segment(builder.root), first.log_offset, bytes(last.log_offset - first.log_offset))

    found, _ = walk_of(builder.root)

    (flaw,) = flaws_of(found)
    assert flaw == Flaw(first.log_offset, last.log_offset, FlawKind.HOLE, "nothing is written here")


def test_a_segment_that_begins_broken_is_read_from_its_first_sound_record(
    builder: StoreBuilder,
) -> None:
    starts = [placed for placed in builder.placed if placed.log_offset >= SEGMENT]
    overwrite(segment(builder.root, SEGMENT), 0, os.urandom(100))

    found, _ = walk_of(builder.root)

    (flaw,) = flaws_of(found)
    assert (flaw.log_offset, flaw.end) == (SEGMENT, starts[1].log_offset)


def test_a_missing_segment_is_a_gap_and_the_next_one_is_read(builder: StoreBuilder) -> None:
    segment(builder.root, SEGMENT).unlink()

    found, _ = walk_of(builder.root)

    (flaw,) = flaws_of(found)
    assert flaw[:3] == (SEGMENT, 2 * SEGMENT, FlawKind.MISSING)
    assert offsets_of(found)[-1] == builder.placed[-1].log_offset


def test_a_cut_off_segment_loses_only_its_own_end(builder: StoreBuilder) -> None:
    kept = [placed for placed in builder.placed if placed.log_offset + placed.size <= 1000]
    os.truncate(segment(builder.root), 1000)

    found, _ = walk_of(builder.root)

    offsets = offsets_of(found)
    assert offsets[: len(kept)] == [placed.log_offset for placed in kept]
    assert offsets[len(kept)] == SEGMENT
    assert (
        sum(flaw.size for flaw in flaws_of(found)) == SEGMENT - kept[-1].log_offset - kept[-1].size
    )


def test_a_torn_write_at_the_end_is_the_tail_and_no_flaw(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, segment_size=SEGMENT)
    for _ in range(3):
        builder.add(body=b"x" * 50)
    builder.write()
    last = builder.placed[-1]
    overwrite(segment(tmp_path), last.log_offset + 60, bytes(last.size - 60))

    found, walk = walk_of(tmp_path)

    assert len(offsets_of(found)) == 2
    assert flaws_of(found) == []
    assert walk.end == last.log_offset
    assert walk.tail is not None
    assert walk.tail.log_offset == last.log_offset
    assert walk.tail.size <= 60  # what is written of it


def test_a_record_copied_into_a_body_is_not_taken_for_one(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, segment_size=SEGMENT)
    copied = encode_record("orders", b"inner", log_offset=0)
    builder.add(body=b"--" + copied + b"--")
    builder.add(body=b"after")
    builder.write()
    overwrite(segment(tmp_path), 0, b"\xff\xff\xff\xff")

    found, _ = walk_of(tmp_path)

    assert offsets_of(found) == [builder.placed[1].log_offset]


def test_records_larger_than_the_window_are_read(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, segment_size=8 * WINDOW_SIZE_BYTES)
    builder.add(body=b"small")
    builder.add(body=b"L" * (3 * WINDOW_SIZE_BYTES))
    builder.add(body=b"small")
    builder.write()

    found, _ = walk_of(tmp_path)

    assert len(offsets_of(found)) == 3
    assert flaws_of(found) == []


def test_damage_longer_than_a_window_is_skipped(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path, segment_size=8 * WINDOW_SIZE_BYTES)
    builder.add(body=b"L" * (2 * WINDOW_SIZE_BYTES))
    builder.add(body=b"after")
    builder.write()
    overwrite(segment(tmp_path), 0, b"\x01" * 8)

    found, _ = walk_of(tmp_path)

    assert offsets_of(found) == [builder.placed[1].log_offset]


def test_records_with_ipv6_hosts_are_walked(tmp_path: Path) -> None:
    host = pack_host("2001:db8::1", 10911)
    first = encode_record("v6", b"one", born_host=host, store_host=host, stored_at_ms=7)
    second = encode_record("v6", b"two", log_offset=len(first), store_host=host, stored_at_ms=8)
    (tmp_path / "commitlog").mkdir()
    segment(tmp_path).write_bytes((first + second).ljust(SEGMENT, b"\0"))

    found, _ = walk_of(tmp_path)

    assert [item.stored_at_ms for item in found if isinstance(item, LogRecord)] == [7, 8]


def test_a_segment_that_may_not_be_read_is_one_flaw(
    builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = RealDisk.open

    def refuse(disk: RealDisk, path: Path, *, is_writable: bool) -> object:
        if path == segment(builder.root, SEGMENT):
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(disk, path, is_writable=is_writable)

    monkeypatch.setattr(RealDisk, "open", refuse)
    found, _ = walk_of(builder.root)

    (flaw,) = flaws_of(found)
    assert flaw == Flaw(SEGMENT, 2 * SEGMENT, FlawKind.UNREADABLE, "Permission denied")
