"""Tables that Spark cannot open by itself."""

import pytest

from emberq.errors import ConfigError
from emberq.pipelines.archive import Archive
from emberq.pipelines.archived import partition_of


def test_a_table_in_an_object_store_needs_a_checkpoint_elsewhere() -> None:
    job = Archive(topics="orders", path="s3://lake/orders")

    with pytest.raises(ConfigError, match="needs checkpoint"):
        _ = job.checkpoint_path
    assert Archive(topics="orders", path="lake").checkpoint_path == "lake/_checkpoint"


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
