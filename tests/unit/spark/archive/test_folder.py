"""A folder says what is in it, and when that was written."""

import os
from pathlib import Path

import pytest

from emberq.errors import TableError
from emberq.spark.archive.addresses import absolute
from emberq.spark.archive.folder import Folder


def test_every_file_is_known_with_the_time_it_was_written_at(tmp_path: Path) -> None:
    for name in ("a.parquet", "topic=x/b.parquet", "topic=x/.c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
        os.utime(path, (7, 7))

    folder = Folder(str(tmp_path))

    assert folder.modified_times() == {"a.parquet": 7, "topic=x/b.parquet": 7, "topic=x/.c": 7}
    assert folder.names("") == ["a.parquet"]
    assert Folder(str(tmp_path / "none")).modified_times() == {}


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("lake/orders", "{here}/lake/orders"),
        ("/lake/orders/", "/lake/orders"),
        ("file:///lake/a#b?c%20d", "file:///lake/a#b?c%20d"),
        ("file:/lake", "file:///lake"),
        ("file://localhost/lake", "file:///lake"),
        ("s3://bucket/lake", "s3://bucket/lake"),
    ],
)
def test_a_local_address_is_the_same_place_for_all_processes(
    address: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert absolute(address) == path.format(here=tmp_path)


def test_a_folder_stays_where_it_was_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Folder("lake")
    monkeypatch.chdir("/")

    assert folder.root == str(tmp_path / "lake")
    assert Folder(folder.root).path_of("a") == str(tmp_path / "lake" / "a")


def test_signs_of_addresses_are_part_of_a_folders_name(tmp_path: Path) -> None:
    (tmp_path / "a#b?c%20d").mkdir()
    (tmp_path / "a#b?c%20d" / "file").write_bytes(b"12345")

    folder = Folder(f"file://{tmp_path}/a#b?c%20d")

    assert folder.read("file") == b"12345"
    assert folder.sizes_bytes(["file", "none"]) == [5, None]
    assert folder.name_of(folder.address_of("file")) == "file"


@pytest.mark.parametrize(
    ("address", "hint"),
    [("s3a://lake/orders", "give s3://"), ("hdfs://nowhere/lake", "HADOOP_HOME")],
)
def test_an_address_that_arrow_cannot_open_says_what_to_do(address: str, hint: str) -> None:
    with pytest.raises(TableError, match=hint) as caught:
        Folder(address)
    assert "\n" not in str(caught.value)
