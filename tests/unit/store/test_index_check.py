from pathlib import Path

import pytest

from emberq.store.disk import RealDisk
from emberq.store.index_check import CheckedEntries, check_entries
from emberq.store.index_file import IndexFile
from emberq.store.index_layout import ENTRY, IndexHeader, IndexShape

SHAPE = IndexShape(slots=4, entries_max=50)
T = 1_760_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Entries 1 to 20, two for each record; the records start at 100, 200, … 1000."""
    path = tmp_path / "f"
    file = IndexFile(RealDisk(), path, SHAPE, header=IndexHeader())
    offsets = [100 * (1 + number // 2) for number in range(20)]
    file.append(list(range(1000, 1020)), offsets, [T + offset * 30 for offset in offsets])
    file.write_entries()
    file.write_head()
    file.close()
    return path


def check(path: Path, end_log_offset: int = 1 << 62, next_number: int = 21) -> CheckedEntries:
    header = IndexHeader(
        begin_timestamp_ms=T + 3000,
        end_timestamp_ms=T + 30_000,
        begin_log_offset=100,
        end_log_offset=1000,
        used_slots=4,
        next_number=next_number,
    )
    file = RealDisk().open(path, is_writable=False)
    try:
        return check_entries(file, SHAPE, header, end_log_offset)
    finally:
        file.close()


def change_entry(path: Path, number: int, field: int, value: int) -> None:
    content = bytearray(path.read_bytes())
    fields = list(ENTRY.unpack_from(content, SHAPE.position_of(number)))
    fields[field] = value
    ENTRY.pack_into(content, SHAPE.position_of(number), *fields)
    path.write_bytes(content)


def test_an_intact_file_stays_as_it_is(path: Path) -> None:
    checked = check(path)

    assert not checked.damage
    assert checked.slots.tolist() == [17, 18, 19, 20]
    assert checked.header.next_number == 21
    assert checked.header.used_slots == 4
    assert checked.header.end_timestamp_ms == T + 30_000


def test_slots_and_header_follow_from_the_entries_that_stay(path: Path) -> None:
    checked = check(path, end_log_offset=200)

    assert not checked.damage
    assert checked.slots.tolist() == [1, 2, 0, 0]
    assert checked.header == IndexHeader(
        begin_timestamp_ms=T + 3000,
        end_timestamp_ms=T + 3000,
        begin_log_offset=100,
        end_log_offset=100,
        used_slots=2,
        next_number=3,
    )


def test_a_file_without_an_entry_that_stays_is_empty(path: Path) -> None:
    checked = check(path, end_log_offset=100)

    assert checked.header == IndexHeader()
    assert checked.slots.tolist() == [0] * 4


def test_entries_that_the_header_does_not_count_are_none(path: Path) -> None:
    checked = check(path, next_number=5)

    assert not checked.damage
    assert checked.header.next_number == 5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(0, 1001, id="a hash of another slot"),
        pytest.param(0, -1, id="a negative hash"),
        pytest.param(1, 400, id="a log offset that goes back"),
        pytest.param(2, -1, id="a negative time"),
        pytest.param(3, 0, id="a chain that is cut"),
        pytest.param(3, 15, id="a chain that leads on"),
    ],
)
def test_a_torn_entry_is_cut_off_with_the_record_before_it(
    path: Path, field: int, value: int
) -> None:
    change_entry(path, 13, field, value)

    checked = check(path)

    assert checked.damage == "entry 13 of 20 is torn"
    assert checked.header.next_number == 11  # entries 11 and 12 are of the record before
    assert checked.header.end_log_offset == 500
    assert checked.slots.tolist() == [9, 10, 7, 8]


def test_a_lost_first_page_leaves_nothing(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[SHAPE.position_of(1) : SHAPE.position_of(4)] = bytes(60)
    path.write_bytes(content)

    checked = check(path)

    assert checked.damage == "entry 1 of 20 is torn"
    assert checked.header == IndexHeader()
    assert checked.slots.tolist() == [0] * 4
