"""The cleaner's thread: it runs by itself, survives errors and stops."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emberq.store import cleaning
from emberq.testing.disk_history import Operation
from emberq.testing.faulty_disk import Fault, FaultyDisk
from tests.support.stores import bodies_of, opened, put

BODY = bytes(1_000)
DEADLINE_S = 45.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "FIRST_CLEANING_AFTER_S", 0.0)
    monkeypatch.setattr(cleaning, "SPACE_CHECK_INTERVAL_S", 0.001)


HURRIED: dict[str, Any] = {
    "clean_resource_interval": 1,
    "flush_consume_queue_thorough_interval": 1,
    "flush_interval_consume_queue": 1,
    "delete_commit_log_files_interval": 0,
}


def test_the_cleaner_deletes_by_itself_while_messages_come_and_are_read(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk, **HURRIED) as store:
        disk.used = 0.88
        for _ in range(300):
            assert put(store, BODY).status.is_stored
            bodies_of(store)
        until(lambda: len(store.log.starts) == 1)
        until(lambda: store.min_offset("Orders", 0) > 0)

        assert all(body == BODY for body in bodies_of(store))


def test_the_cleaner_notices_a_full_disk_and_that_it_is_full_no_more(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk, **HURRIED) as store:
        disk.used = 0.95
        until(lambda: bool(store.refusal))

        disk.used = 0.5
        until(lambda: not store.refusal)


def test_an_error_does_not_end_the_cleaner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk, **HURRIED) as store:
        for _ in range(40):
            put(store, BODY)
        disk.fault = Fault(0, operations=frozenset({Operation.REMOVE}))
        disk.used = 0.88
        until(lambda: "cleaning_failed" in caplog.text)

        disk.fault = None

        until(lambda: len(store.log.starts) == 1)


def test_closing_ends_the_cleaner(tmp_path: Path) -> None:
    def is_running() -> bool:
        return any(thread.name == "emberq-clean" for thread in threading.enumerate())

    with opened(tmp_path) as store:
        assert is_running()

    assert not is_running()
    assert store.delete_expired_segments() == 0


def test_an_open_store_follows_new_limits_of_the_disk(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk, **HURRIED) as store:
        disk.used = 0.8
        store.follow(replace(store.config, disk_space_warning_level_ratio=70))
        until(lambda: bool(store.refusal))

        store.follow(replace(store.config, disk_space_warning_level_ratio=90))
        until(lambda: not store.refusal)
