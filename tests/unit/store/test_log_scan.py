"""Walking over records: where it ends, and what it steps over."""

from pathlib import Path

import pytest

from emberq.kernel.scan import ScannedRecord
from emberq.record.encode import encode_record
from emberq.record.layout import MAGIC_V2
from emberq.store.commit_log import CommitLog
from emberq.store.log_scan import Damage, LogScan, ScanStop
from emberq.testing.faulty_disk import FaultyDisk
from tests.support.stores import HOST, HOST_IPV6

SIZE = 4096


class Written:
    """A log of records, and where they lie."""

    def __init__(self, root: Path) -> None:
        self.disk = FaultyDisk(root)
        self.log = CommitLog(self.disk, root / "log", SIZE)
        self.log.open_for_append()
        self.offsets: list[int] = []

    def put(
        self, body: bytes, *, topic: str = "T", is_v2: bool = False, is_ipv6: bool = False
    ) -> None:
        while True:
            record = encode_record(
                topic,
                body,
                b"TAGS\x01A\x02",
                queue_id=3,
                queue_offset=len(self.offsets),
                log_offset=self.log.end,
                born_host=HOST_IPV6 if is_ipv6 else HOST,
                store_host=HOST,
                stored_at_ms=1_000 + len(self.offsets),
                is_v2=is_v2,
            )
            if self.log.fits(len(record)):
                break
            self.log.roll()
        self.offsets.append(self.log.end)
        self.log.append(record)

    def flip(self, offset: int) -> None:
        found = self.log.segment_at(offset)
        assert found is not None
        segment, position = found
        segment.view[position] ^= 0x40

    def scan(self, **more: int) -> tuple[list[ScannedRecord], LogScan]:
        """As after a restart, when the end is not known."""
        end = self.log.starts[-1] + SIZE
        scan = LogScan(self.log, 0, end, **more)  # type: ignore[arg-type]  # only whole_until
        return list(scan), scan


@pytest.fixture
def written(tmp_path: Path) -> Written:
    written = Written(tmp_path)
    for number in range(12):
        written.put(bytes([number]) * 600)
    return written


def test_records_of_all_segments_come_in_order(written: Written) -> None:
    records, scan = written.scan()

    assert [record.log_offset for record in records] == written.offsets
    assert [record.queue_offset for record in records] == list(range(12))
    assert len(written.log.starts) > 2
    assert (scan.end.offset, scan.end.stop) == (written.log.end, ScanStop.UNWRITTEN)
    assert scan.damages == []


@pytest.mark.parametrize("is_v2", [False, True])
@pytest.mark.parametrize("is_ipv6", [False, True])
def test_every_kind_of_record_is_understood(tmp_path: Path, is_v2: bool, is_ipv6: bool) -> None:
    written = Written(tmp_path)
    written.put(b"body", topic="Topic", is_v2=is_v2, is_ipv6=is_ipv6)
    written.put(b"", topic="Topic", is_v2=is_v2, is_ipv6=is_ipv6)

    records, _ = written.scan()

    assert [record.topic for record in records] == [b"Topic", b"Topic"]
    assert [record.properties for record in records] == [b"TAGS\x01A\x02"] * 2
    assert [record.stored_at_ms for record in records] == [1_000, 1_001]
    assert (records[0].queue_id, records[0].log_offset) == (3, 0)


def test_a_topic_of_version_2_may_be_long(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.put(b"body", topic="t" * 200)

    ((record,), _) = written.scan()

    assert record.topic == b"t" * 200
    assert bytes(record.view[4:8]) == MAGIC_V2.to_bytes(4, "big")


@pytest.mark.parametrize("at", [0, 3, 4, 8, 28, 35, 84, 88, 300, 688, 690, 691])
def test_damage_at_the_end_of_what_is_known_ends_the_log(written: Written, at: int) -> None:
    written.flip(written.offsets[5] + at)

    records, scan = written.scan()

    assert len(records) == 5
    assert (scan.end.offset, scan.end.stop) == (written.offsets[5], ScanStop.DAMAGED)
    assert scan.end.detail


@pytest.mark.parametrize("at", [0, 3, 4, 8, 28, 35, 84, 88, 300, 688, 690, 691])
def test_damage_where_the_log_was_whole_is_stepped_over(written: Written, at: int) -> None:
    written.flip(written.offsets[5] + at)

    records, scan = written.scan(whole_until=written.log.end)

    assert [record.queue_offset for record in records] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert [damage.offset for damage in scan.damages] == [written.offsets[5]]
    assert scan.end.offset == written.log.end


def test_the_damage_reaches_to_the_next_record(written: Written) -> None:
    written.flip(written.offsets[1] + 1)  # its size
    written.flip(written.offsets[2] + 5)  # the next one's magic

    _, scan = written.scan(whole_until=written.log.end)

    (damage,) = scan.damages
    assert (damage.offset, damage.offset + damage.size) == (written.offsets[1], written.offsets[3])


def test_a_damaged_last_record_does_not_give_its_place_to_others(written: Written) -> None:
    written.flip(written.offsets[11] + 100)

    records, scan = written.scan(whole_until=written.log.end)

    assert len(records) == 11
    assert scan.end.offset == written.log.end


def test_a_damaged_last_record_of_a_segment_costs_nothing_behind_it(written: Written) -> None:
    last_of_first = max(offset for offset in written.offsets if offset < SIZE)
    written.flip(last_of_first)

    records, scan = written.scan(whole_until=written.log.end)

    assert len(records) == 11
    assert len(scan.damages) == 1
    assert scan.end.offset == written.log.end


def test_a_damaged_blank_costs_nothing(written: Written) -> None:
    last_of_first = max(offset for offset in written.offsets if offset < SIZE)
    blank = last_of_first + written.offsets[1]
    written.flip(blank + 5)

    records, scan = written.scan(whole_until=written.log.end)

    assert len(records) == 12
    assert scan.damages == [
        Damage(blank, SIZE - blank, scan.damages[0].detail),
    ]


def test_a_lost_segment_content_costs_only_that_segment(written: Written) -> None:
    found = written.log.segment_at(SIZE)
    assert found is not None
    found[0].view[:] = bytes(SIZE)
    lost = sum(SIZE <= offset < 2 * SIZE for offset in written.offsets)

    records, scan = written.scan(whole_until=written.log.end)

    assert len(records) == 12 - lost
    assert scan.damages == [Damage(SIZE, SIZE, scan.damages[0].detail)]


def test_a_record_inside_a_body_is_not_taken_for_one(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.put(b"first")
    inner = encode_record("T", b"inner", log_offset=12345, stored_at_ms=1)
    written.put(b"...." + inner)
    written.put(b"last")
    written.flip(written.offsets[1])

    records, _ = written.scan(whole_until=written.log.end)

    assert [record.queue_offset for record in records] == [0, 2]


def test_a_record_that_is_still_arriving_is_not_read(written: Written) -> None:
    for missing in (1, 7, 300, 690):
        scan = LogScan(written.log, 0, written.offsets[3] - missing)

        assert len(list(scan)) == 2
        assert scan.end.offset == written.offsets[2]


def test_the_walk_may_begin_at_a_blank(written: Written) -> None:
    last_of_first = max(offset for offset in written.offsets if offset < SIZE)
    blank = last_of_first + written.offsets[1]

    first = next(iter(LogScan(written.log, blank)))

    assert first.log_offset == SIZE


def test_an_empty_log_has_no_records(tmp_path: Path) -> None:
    log = CommitLog(FaultyDisk(tmp_path), tmp_path, SIZE)

    scan = LogScan(log, 0)

    assert list(scan) == []
    assert scan.end.offset == 0
