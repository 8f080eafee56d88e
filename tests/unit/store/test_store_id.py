"""Which store directory one is."""

import logging
from pathlib import Path

import pytest

from emberq.store.disk import RealDisk
from emberq.store.store_id import STORE_ID_FILE, has_store_id, renew_store_id

DISK = RealDisk()


def test_a_directory_is_known_by_what_its_broker_wrote(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    store_id, other_id = renew_store_id(here, DISK), renew_store_id(there, DISK)

    assert has_store_id(here, store_id, DISK)
    assert not has_store_id(there, store_id, DISK)
    assert has_store_id(there, other_id, DISK)


def test_a_copy_is_another_directory_once_one_of_both_was_started(tmp_path: Path) -> None:
    before = renew_store_id(tmp_path, DISK)

    after = renew_store_id(tmp_path, DISK)

    assert has_store_id(tmp_path, after, DISK)
    assert not has_store_id(tmp_path, before, DISK)


@pytest.mark.parametrize("content", [None, b"", b"cut"])
def test_what_is_not_there_or_cut_is_no_id(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / STORE_ID_FILE).write_bytes(content)

    for store_id in ("", "0" * 32):
        assert not has_store_id(tmp_path, store_id, DISK)


def test_a_broker_that_cannot_write_its_id_has_none_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / STORE_ID_FILE).mkdir()

    with caplog.at_level(logging.WARNING):
        assert renew_store_id(tmp_path, DISK) == ""

    assert "store_id_not_written" in caplog.text
