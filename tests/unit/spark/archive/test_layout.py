"""Columns that partition, and none of them."""

import pytest

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.spark.archive.layout import (
    ArchiveLayout,
    partition_columns,
    partition_of,
    partition_path,
)
from emberq.spark.options import parse_source

QUEUE = MessageQueue("broker-a", 3, "orders")


@pytest.mark.parametrize("text", ["none", ","])
def test_an_archive_without_partitions_is_one_folder(text: str) -> None:
    options = {
        "nameServer": "127.0.0.1:9876",
        "subscribe": "orders",
        "view": "archive",
        "archive.path": "lake",
        "archive.partitionBy": text,
    }

    layout = parse_source(options).archive

    assert layout is not None
    assert layout.partition_by == ()
    assert not layout.is_timed
    assert partition_path(layout.partition(QUEUE, 0)) == ""


def test_none_stands_alone() -> None:
    assert partition_columns(("none",)) == partition_columns(()) == ()
    assert partition_columns(("topic", "date", "topic")) == ("topic", "date")
    with pytest.raises(ConfigError, match="partitionBy='none'"):
        ArchiveLayout(root="lake", partition_by=("topic", "none"))


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("topic=orders/date=2026-11-17/a-0.parquet", {"topic": "orders", "date": "2026-11-17"}),
        ("topic=%25DLQ%25billing/a.parquet", {"topic": "%DLQ%billing"}),
        ("a=b.parquet", {}),
    ],
)
def test_folders_say_what_files_do_not_hold(name: str, seen: dict[str, str]) -> None:
    assert partition_of(name) == seen
