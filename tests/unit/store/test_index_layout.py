from pathlib import Path

import pytest

from emberq.errors import StoreDamaged
from emberq.store.disk import RealDisk
from emberq.store.index_layout import (
    IndexHeader,
    IndexShape,
    compare_with_entries,
    header_after,
    read_header,
)

SHAPE = IndexShape(slots=10, entries_max=20)


def read(path: Path) -> IndexHeader:
    file = RealDisk().open(path, is_writable=False)
    try:
        header = read_header(file, SHAPE)
        compare_with_entries(file, SHAPE, header)
    finally:
        file.close()
    return header


def test_the_official_file_has_420_000_040_bytes() -> None:
    shape = IndexShape(slots=5_000_000, entries_max=20_000_000)

    assert shape.file_size == 420_000_040
    assert shape.position_of(1) == 20_000_060


def test_an_untouched_file_has_no_entry(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(SHAPE.file_size))

    assert read(tmp_path / "f") == IndexHeader(next_number=1)


def test_a_file_begins_where_the_one_before_it_ended() -> None:
    full = IndexHeader(
        begin_timestamp_ms=1,
        end_timestamp_ms=2,
        begin_log_offset=3,
        end_log_offset=4,
        used_slots=5,
        next_number=6,
    )

    assert header_after(full) == IndexHeader(
        begin_timestamp_ms=2, end_timestamp_ms=2, begin_log_offset=4, end_log_offset=4
    )


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(100))

    with pytest.raises(StoreDamaged, match="maxHashSlotNum"):
        read(tmp_path / "f")


@pytest.mark.parametrize(
    "header",
    [
        IndexHeader(next_number=SHAPE.entries_max + 1),
        IndexHeader(next_number=5, used_slots=5),
        IndexHeader(used_slots=-1),
        IndexHeader(begin_log_offset=-1),
        IndexHeader(begin_log_offset=5, end_log_offset=4),
        IndexHeader(begin_timestamp_ms=-1),
    ],
)
def test_a_header_with_impossible_numbers_is_refused(tmp_path: Path, header: IndexHeader) -> None:
    (tmp_path / "f").write_bytes(header.pack().ljust(SHAPE.file_size, b"\0"))

    with pytest.raises(StoreDamaged, match="no sound index file"):
        read(tmp_path / "f")


def test_a_header_that_does_not_fit_its_entries_is_refused(tmp_path: Path) -> None:
    header = IndexHeader(next_number=3, used_slots=1, begin_log_offset=5, end_log_offset=9)
    (tmp_path / "f").write_bytes(header.pack().ljust(SHAPE.file_size, b"\0"))

    with pytest.raises(StoreDamaged, match="its header says 5 to 9"):
        read(tmp_path / "f")
