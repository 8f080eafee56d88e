"""When tables reach their files."""

import asyncio
import threading
from pathlib import Path

import pytest

from emberq.broker import persistence as persistence_module
from emberq.broker.metadata_files import MetadataFile
from emberq.broker.persistence import Persistence
from emberq.model.data_version import DataVersion
from emberq.protocol.bodies.topics import TopicTable
from tests.support.waiting import loop_turns, until


class Table:
    """A table that counts its snapshots."""

    def __init__(self) -> None:
        self.counter = 0
        self.snapshots = 0

    def snapshot(self) -> TopicTable:
        self.snapshots += 1
        return TopicTable(data_version=DataVersion(counter=self.counter))


class SlowFile(MetadataFile[TopicTable]):
    """Waits in the middle of a save until it is told to go on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, TopicTable)
        self.go_on = threading.Event()
        self.saves = 0
        self.fails = False

    def save(self, table: TopicTable) -> None:
        assert self.go_on.wait(10)
        self.saves += 1
        if self.fails:
            raise OSError(28, "No space left on device")
        super().save(table)


def stored(file: MetadataFile[TopicTable]) -> int:
    return file.load().data_version.counter


def new_file(folder: Path) -> MetadataFile[TopicTable]:
    return MetadataFile(folder / "topics.json", TopicTable)


async def test_a_marked_table_is_written_without_anybody_waiting(tmp_path: Path) -> None:
    persistence, table, file = Persistence(), Table(), new_file(tmp_path)
    mark = persistence.add("topics", file, table.snapshot)

    table.counter = 1
    mark()
    await until(lambda: stored(file) == 1)
    table.counter = 2
    persistence.mark("topics")
    await until(lambda: stored(file) == 2)

    await persistence.close()


async def test_changes_during_a_write_share_the_next_one(tmp_path: Path) -> None:
    persistence, table, file = Persistence(), Table(), SlowFile(tmp_path / "topics.json")
    mark = persistence.add("topics", file, table.snapshot)

    mark()
    await until(lambda: table.snapshots == 1)
    for counter in range(1, 50):
        table.counter = counter
        mark()
    file.go_on.set()
    await persistence.save_now("topics")

    assert stored(file) == 49
    assert file.saves == 2
    await persistence.close()


async def test_who_waits_for_a_save_finds_his_change_in_the_file(tmp_path: Path) -> None:
    persistence, table, file = Persistence(), Table(), new_file(tmp_path)
    mark = persistence.add("topics", file, table.snapshot, interval_s=3_600)

    table.counter = 5
    mark()
    await persistence.save_now("topics")

    assert stored(file) == 5
    await persistence.close()


async def test_an_unchanged_table_is_not_written(tmp_path: Path) -> None:
    persistence, table, file = Persistence(), Table(), new_file(tmp_path)
    persistence.add("topics", file, table.snapshot)

    await persistence.save_now("topics")
    await persistence.close()

    assert table.snapshots == 0
    assert not file.path.exists()


async def test_closing_writes_what_waits_for_its_time(tmp_path: Path) -> None:
    persistence, table, file = Persistence(), Table(), new_file(tmp_path)
    mark = persistence.add("topics", file, table.snapshot, interval_s=3_600)

    table.counter = 9
    mark()
    await persistence.close()

    assert stored(file) == 9


async def test_who_waits_hears_that_the_disk_is_full(tmp_path: Path) -> None:
    persistence, table, file = Persistence(), Table(), SlowFile(tmp_path / "topics.json")
    mark = persistence.add("topics", file, table.snapshot, interval_s=3_600)
    file.go_on.set()
    file.fails = True

    mark()
    with pytest.raises(OSError, match="No space left"):
        await persistence.save_now("topics")

    file.fails = False
    await persistence.close()
    assert stored(file) == table.counter


async def test_a_failed_write_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(persistence_module, "RETRY_INTERVAL_S", 0.01)
    persistence, table, file = Persistence(), Table(), SlowFile(tmp_path / "topics.json")
    mark = persistence.add("topics", file, table.snapshot)
    file.go_on.set()
    file.fails = True

    table.counter = 3
    mark()
    await until(lambda: file.saves >= 1)
    file.fails = False
    await until(lambda: stored(file) == 3)

    assert "table_not_saved table=topics" in caplog.text
    await persistence.close()


async def test_who_stops_waiting_does_not_stop_the_write(tmp_path: Path) -> None:
    persistence, table, file = Persistence(), Table(), SlowFile(tmp_path / "topics.json")
    mark = persistence.add("topics", file, table.snapshot, interval_s=3_600)
    table.counter = 1
    mark()
    waiting = asyncio.ensure_future(persistence.save_now("topics"))
    await until(lambda: table.snapshots == 1)

    waiting.cancel()
    file.go_on.set()
    await persistence.close()

    assert stored(file) == 1
    assert file.saves == 1


async def test_a_table_that_is_slow_to_write_is_written_less_often(tmp_path: Path) -> None:
    work = iter(range(0, 1_000, 10))  # every write takes ten seconds
    persistence = Persistence(cpu_clock=lambda: float(next(work)))
    table, file = Table(), new_file(tmp_path)
    mark = persistence.add("topics", file, table.snapshot)
    table.counter = 1
    mark()
    await until(lambda: stored(file) == 1)

    table.counter = 2
    mark()
    await loop_turns(20)
    is_held_back = table.snapshots == 1
    await persistence.save_now("topics")

    assert is_held_back
    assert stored(file) == 2
    await persistence.close()


async def test_a_snapshot_that_fails_does_not_keep_the_other_tables_from_their_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> TopicTable:
        raise KeyError("our bug")

    persistence, table = Persistence(), Table()
    mark_broken = persistence.add("broken", new_file(tmp_path / "a"), broken)
    mark = persistence.add("topics", new_file(tmp_path / "b"), table.snapshot, interval_s=3_600)
    table.counter = 1
    mark_broken()
    mark()

    await persistence.close()

    assert stored(new_file(tmp_path / "b")) == 1
    assert "table_broken table=broken" in caplog.text
