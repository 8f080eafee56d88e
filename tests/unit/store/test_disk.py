"""The seam to the operating system, on real files."""

from pathlib import Path

import pytest

from emberq.store.disk import RealDisk
from emberq.store.erasing import pieces_not_zero

SIZE = 1024 * 1024


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk()


def test_a_segment_s_blocks_are_reserved_and_a_sparse_file_s_are_not(
    disk: RealDisk, tmp_path: Path
) -> None:
    disk.create_mapped(tmp_path / "a" / "mapped", SIZE).close()
    disk.create_sparse(tmp_path / "b" / "sparse", SIZE).close()

    assert (tmp_path / "a" / "mapped").stat().st_blocks * 512 >= SIZE
    assert (tmp_path / "b" / "sparse").stat().st_blocks == 0
    assert (tmp_path / "b" / "sparse").stat().st_size == SIZE


def test_mapping_and_reading_see_the_same_bytes(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create_mapped(tmp_path / "mapped", SIZE)
    file.write(1_000, b"hello")

    assert bytes(file.view[1_000:1_005]) == b"hello"
    assert file.read(1_000, 5) == b"hello"
    assert file.read_cached(1_000, 5) in (b"hello", None)
    file.sync()
    assert (tmp_path / "mapped").read_bytes()[1_000:1_005] == b"hello"
    file.close()


def test_views_outlive_the_file(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create_mapped(tmp_path / "mapped", SIZE)
    file.write(0, b"kept")
    view = file.view[:4]
    file.close()
    disk.remove(tmp_path / "mapped")

    assert bytes(view) == b"kept"


def test_an_existing_sparse_file_keeps_its_content(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.create_sparse(tmp_path / "file", 100)
    file.write(0, b"x" * 100)

    again = disk.create_sparse(tmp_path / "file", 200)

    assert again.read(0, 200) == b"x" * 100 + bytes(100)


def test_only_what_was_written_is_looked_at(disk: RealDisk, tmp_path: Path) -> None:
    size = 64 * SIZE
    file = disk.create_sparse(tmp_path / "file", size)
    file.write(0, b"a")
    file.write(40 * SIZE + 5, b"b")

    ranges = file.written_from(8192)

    assert sum(end - start for start, end in ranges) < SIZE
    assert [at <= 40 * SIZE + 5 < at + count for at, count in pieces_not_zero(file, 8192)] == [True]
    assert list(pieces_not_zero(file, 41 * SIZE)) == []


def test_folders_are_made_with_all_above_them(disk: RealDisk, tmp_path: Path) -> None:
    disk.make_folder(tmp_path / "a" / "b" / "c")
    disk.make_folder(tmp_path / "a" / "b" / "c")

    assert disk.list(tmp_path / "a") == ["b"]
    assert disk.list(tmp_path / "missing") == []
    disk.remove_folder(tmp_path / "a")
    disk.remove_folder(tmp_path / "a" / "b" / "c")
    assert disk.list(tmp_path / "a" / "b") == []


def test_removing_what_is_gone_is_no_error(disk: RealDisk, tmp_path: Path) -> None:
    disk.remove(tmp_path / "gone")

    assert not disk.exists(tmp_path / "gone")


def test_a_file_is_no_folder_with_names(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    assert disk.list(tmp_path / "file") == []


def test_the_disk_knows_how_full_it_is(disk: RealDisk, tmp_path: Path) -> None:
    assert 0 <= disk.used_ratio(tmp_path / "not" / "there" / "yet") <= 1
