"""One store per directory."""

import subprocess
import sys
from pathlib import Path

import pytest

from emberq.errors import StoreInUse
from emberq.store.directory_lock import DirectoryLock
from tests.support.stores import new_store, opened, put

HOLDER = """
import sys
from pathlib import Path
from emberq.store.directory_lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_is_kept_out_until_the_first_one_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreInUse, match="another process"):
            DirectoryLock(tmp_path)
        holder.stdin.close()
    DirectoryLock(tmp_path).release()


def test_another_store_of_this_process_is_kept_out_and_does_no_harm(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        link = tmp_path.parent / "link"
        link.symlink_to(tmp_path)
        for path in (tmp_path, link):
            with pytest.raises(StoreInUse, match="this process"):
                new_store(path).open()
        put(store)
        holder = subprocess.run(
            [sys.executable, "-c", HOLDER, str(tmp_path)],
            input=b"",
            capture_output=True,
            check=False,
        )
        assert b"StoreInUse" in holder.stderr, "the lock must outlive the second try"

    DirectoryLock(tmp_path).release()


def test_the_file_says_what_official_brokers_write(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)

    assert (tmp_path / "lock").read_bytes() == b"lock"
    lock.release()
