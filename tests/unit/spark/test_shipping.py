"""The package on machines that do not have it."""

import importlib.util
import sys
import tempfile
from pathlib import Path

import pytest

shipping = pytest.importorskip("emberq.spark.shipping", exc_type=ImportError)

PACKAGE = b"a zip of the package"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of a machine without the package."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def unpack() -> Path:
    """Where the package was found."""
    assert shipping.unpacker()("", PACKAGE, shipping.pickled((len, ("four",)))) == 4
    return Path(sys.path[-1])


def test_all_processes_of_a_machine_share_one_copy(elsewhere: Path) -> None:
    first, second = unpack(), unpack()

    assert first == second
    assert first.read_bytes() == PACKAGE
    assert first.parent.stat().st_mode & 0o077 == 0
    assert [path for path in elsewhere.rglob("*") if path.is_file()] == [first]


def test_a_place_that_others_may_write_to_is_not_trusted(elsewhere: Path) -> None:
    first = unpack()
    first.write_bytes(b"of somebody else")
    first.parent.chmod(0o777)

    second = unpack()

    assert second != first
    assert second.read_bytes() == PACKAGE
