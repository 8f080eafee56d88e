"""Messages are refused while the disk is too full, and taken again when it is not."""

import logging
from pathlib import Path

import pytest

from emberq.store.results import PutStatus
from emberq.testing.faulty_disk import FaultyDisk
from tests.support.stores import opened, put


def test_a_disk_above_the_limit_refuses_messages_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk) as store:
        disk.used = 0.91
        store._space.check()
        store._space.check()

        refused = put(store)
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert "91% used, 90% allowed" in refused.reason

        disk.used = 0.90
        store._space.check()

        assert put(store).status is PutStatus.PUT_OK
    messages = [record.message for record in caplog.records]
    assert sum(text.startswith("disk_full ") for text in messages) == 1
    assert sum(text.startswith("disk_has_room ") for text in messages) == 1


@pytest.mark.parametrize(("percent", "used"), [(40, 0.41), (10, 0.36), (99, 0.91)])
def test_the_limit_is_configured_within_official_bounds(
    percent: int, used: float, tmp_path: Path
) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk, disk_space_warning_level_ratio=percent) as store:
        disk.used = round(used - 0.01, 2)
        store._space.check()
        assert put(store).status is PutStatus.PUT_OK

        disk.used = used
        store._space.check()
        assert put(store).status is PutStatus.SERVICE_NOT_AVAILABLE


def test_a_message_that_was_put_before_the_disk_filled_becomes_durable(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk, flush_disk_type="SYNC_FLUSH") as store:
        result = put(store)
        disk.used = 0.95
        store._space.check()
        outcome: list[PutStatus] = []

        store.when_durable(result.end_offset, outcome.append)
        while not outcome:
            store.poll()

        assert outcome == [PutStatus.PUT_OK]


def test_usage_tells_shares_and_bytes(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk) as store:
        disk.used = 0.25
        usage = store.disk_usage()

    assert usage.commit_log_ratio == usage.queues_ratio == usage.index_ratio == 0.25
    assert usage.free_bytes == usage.total_bytes * 3 // 4


def test_the_real_disk_tells_its_usage(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        usage = store.disk_usage()

    assert 0 <= usage.commit_log_ratio <= 1
    assert 0 <= usage.free_bytes <= usage.total_bytes
