"""Below a table's folder only what its writers made may be deleted."""

from pathlib import Path

import pyarrow as pa
import pytest

from emberq.model.queue import MessageQueue
from emberq.pipelines.tables.leftovers import left_behind
from emberq.pipelines.tables.parquet import LOG_FOLDER, ParquetTable
from emberq.spark.archive.layout import ArchiveLayout
from emberq.spark.archive.writer import write_range
from emberq.spark.planning import QueueSlice
from tests.unit.pipelines.tables.lake import age, file_name, leave, names_below, written

JOINED = r"joined-[0-9a-f]{32}\.parquet"
OURS = file_name(50)
EARLY = f"broker-a-0-{0:020d}-{9:020d}-0123abcd-0.parquet"
LOG = f"{LOG_FOLDER}/{0:020d}.json"


def found(*names: str) -> set[str]:
    return left_behind([*names, LOG], LOG_FOLDER, JOINED)


@pytest.mark.parametrize(
    "name",
    [
        OURS,
        f"topic=%25DLQ%25a/date=2026-11-17/hour=00/{OURS}",
        f"topic=orders/{EARLY}",
        f"topic=orders/.{OURS}.{7:032x}",
        f"joined-{7:032x}.parquet",
        f"brokerName=a/queueId=0/.joined-{7:032x}.parquet.{7:032x}",
    ],
)
def test_what_archives_and_compactions_write_is_theirs(name: str) -> None:
    assert found(name) == {name}


@pytest.mark.parametrize(
    "name",
    [
        "my-own.parquet",
        "journeys/batch=7/part-0.parquet",
        f"batch=7/{OURS}",
        f"orders/topic=a/{OURS}",
        "topic=orders/part-00000-11fa26d3-a0b5-45ab-8bb0-b69bd6d77423.c000.snappy.parquet",
        f"_checkpoint/{OURS}",
        f"topic=orders/_old/{OURS}",
        f"topic=orders/{OURS}.bak",
    ],
)
def test_what_people_keep_there_is_theirs(name: str) -> None:
    assert found(name) == set()


@pytest.mark.parametrize(
    "log",
    ["_emberq_log/0.json", "_delta_log/0.json", "metadata/v1.metadata.json", "_spark_metadata/0"],
)
def test_another_table_has_its_own_files(log: str) -> None:
    below, beside = f"topic=a/date=2026-11-17/{OURS}", f"topic=b/{OURS}"

    assert found(below, beside, f"topic=a/{log}") == {beside}
    assert found(below, beside, f"topic=b/{log}") == {below}


def test_of_two_tables_in_one_folder_nobody_knows_whose_a_file_is() -> None:
    assert found(OURS, "_delta_log/0.json") == set()


def test_names_of_tasks_are_known(tmp_path: Path) -> None:
    each = QueueSlice(MessageQueue("broker a", 3, "orders"), 100, 200)
    rows = pa.record_batch(
        {
            "queueOffset": pa.array([100]),
            "storeTimestamp": pa.array([0], pa.timestamp("us", "UTC")),
        }
    )
    (file,) = write_range([rows], each, ArchiveLayout(root=str(tmp_path), writer="query"))

    assert found(file.path) == {file.path}


def test_a_compaction_leaves_the_tables_below_alone(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    table.append("query", 0, [written(tmp_path, 0)])
    nested = ParquetTable(str(tmp_path / "topic=refunds"))
    nested.append("query", 0, [written(tmp_path / "topic=refunds", 0)])
    leave(tmp_path, "journeys/batch=7/part-0.parquet")
    leave(tmp_path, f"topic=orders/{OURS}")
    for name in names_below(tmp_path):
        age(tmp_path / name, days=2)
    before = names_below(tmp_path)

    deleted = table.delete_leftovers((tmp_path / LOG).stat().st_mtime)

    assert deleted == [f"topic=orders/{OURS}"]
    assert names_below(tmp_path) == [name for name in before if name not in deleted]
