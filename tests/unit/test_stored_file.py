import errno
import os
from pathlib import Path

import pytest

from emberq.stored_file import backup_of, replace_file


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_first_version_has_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"

    replace_file(path, b"one")

    assert path.read_bytes() == b"one"
    assert names_in(path.parent) == {"file"}


def test_the_previous_content_stays_as_backup(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"two", b"three"):
        replace_file(path, content)

    assert path.read_bytes() == b"three"
    assert backup_of(path).read_bytes() == b"two"
    assert names_in(tmp_path) == {"file", "file.bak"}


def test_left_overs_of_a_crash_are_in_nobody_s_way(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, b"one")
    (tmp_path / "file.tmp").write_bytes(b"half")
    (tmp_path / "file.bak.tmp").write_bytes(b"half")

    replace_file(path, b"two")

    assert path.read_bytes() == b"two"
    assert backup_of(path).read_bytes() == b"one"
    assert names_in(tmp_path) == {"file", "file.bak"}


def test_content_is_on_the_disk_before_it_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        events.append("sync")
        fsync(descriptor)

    def note_replace(source: Path, target: Path) -> Path:
        events.append(f"{source.name} -> {target.name}")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    replace_file(path, b"one")
    replace_file(path, b"two")

    assert events == [
        *("sync", "file.tmp -> file", "sync"),
        *("sync", "file.bak.tmp -> file.bak", "file.tmp -> file", "sync"),
    ]


def test_a_failed_write_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    replace_file(path, b"one")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"two")

    assert path.read_bytes() == b"one"
    assert names_in(tmp_path) == {"file"}


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        replace_file(tmp_path / "file" / "below", b"one")


def test_where_links_are_impossible_the_backup_is_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    replace_file(path, b"one")

    def refuse(link: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    replace_file(path, b"two")

    assert path.read_bytes() == b"two"
    assert backup_of(path).read_bytes() == b"one"


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_the_new_content_is_as_secret_as_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, b"one")
    path.chmod(0o600)

    replace_file(path, b"two")

    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    replace_file(target, b"one")
    link.symlink_to(target)

    replace_file(link, b"two")

    assert link.is_symlink()
    assert target.read_bytes() == b"two"
    assert backup_of(link) == tmp_path / "real" / "file.bak"
