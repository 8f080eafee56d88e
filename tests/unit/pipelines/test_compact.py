"""A dry run of `compact` refuses what the run refuses, and says what it would do."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines.compact import Compact
from emberq.pipelines.tables import open_table
from emberq.pipelines.tables.parquet import ParquetTable
from tests.unit.pipelines.tables.lake import (
    ROWS,
    file_name,
    leave,
    names_below,
    offsets,
    opened,
    store_of,
    written,
)

TODAY = datetime.now(UTC).date()
LEFTOVER = f"topic=orders/{file_name(99)}"
LONG_AGO = TODAY - timedelta(days=99)


def archive(folder: Path, kind: str = "parquet", **options: Any) -> None:
    opened(kind, folder).append("query", 0, [written(folder, first, **options) for first in (0, 1)])


def refused(job: Compact) -> str:
    """What both say."""
    texts = []
    for act in (job.plan, job.run):
        with pytest.raises((ConfigError, PipelineError)) as caught:
            act()
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    return texts[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "iceberg"}, "compact works on parquet and delta tables, not on iceberg"),
        ({"format": "orc"}, "not on orc"),
        ({"file_size": "large"}, "fileSize='large': expected a size"),
        ({"file_size": ""}, "fileSize needs a value"),
        ({"orphans_after": ""}, "orphansAfter needs a value"),
        ({"orphans_after": "a day"}, "orphansAfter='a day': expected a duration"),
        ({"keep": "a month"}, "keep='a month': expected a duration"),
        ({"keep": "9999999d"}, "keep='9999999d': that is before the year 1"),
        ({"compression": "zip"}, "compression='zip': expected one of zstd"),
        ({}, "there is no parquet table at "),
        ({"format": "delta"}, "there is no delta table at "),
        ({"path": "s3://lake/orders"}, "stop the archive and give alone"),
    ],
)
def test_a_dry_run_refuses_what_a_run_refuses(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    assert message in refused(Compact(**{"path": str(tmp_path / "none"), **options}))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_days_are_dropped_only_where_there_are_days(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, str(tmp_path), ROWS, ())
    table.append("query", 0, [written(tmp_path, 0, is_partitioned=False)])

    message = refused(Compact(path=str(tmp_path), format=kind, keep="30d"))

    assert message == "keep needs a table that is partitioned by date"


def test_a_dry_run_says_what_would_be_dropped_joined_and_deleted(tmp_path: Path) -> None:
    table = opened("parquet", tmp_path)
    old = [written(tmp_path, first, 10, day=str(LONG_AGO)) for first in (0, 10, 20)]
    new = [written(tmp_path, first, 5, day=str(TODAY)) for first in (30, 35)]
    table.append("query", 0, [*old, *new])
    leave(tmp_path, LEFTOVER, days=2)
    before = names_below(tmp_path)

    report = Compact(path=str(tmp_path), keep="30d").plan()

    facts = report.facts
    assert (facts["files"], facts["files of days to drop"]) == (5, 3)
    assert (facts["files to join"], facts["groups of them"], facts["files to delete"]) == (2, 1, 1)
    rows = {each.title: each.rows for each in report.tables}
    assert [row[:3] for row in rows["Days to drop"]] == [[f"topic=orders/date={LONG_AGO}", 3, 30]]
    assert [row[:3] for row in rows["Files to join"]] == [[f"topic=orders/date={TODAY}", 2, 10]]
    assert rows["Files to delete"] == [[LEFTOVER]]
    assert names_below(tmp_path) == before

    done = Compact(path=str(tmp_path), keep="30d").run().facts

    assert (done["files of dropped days"], done["files joined"], done["files deleted"]) == (3, 2, 1)
    assert offsets(tmp_path, table) == list(range(30, 40))


def test_a_dry_run_on_delta_says_what_would_be_joined_and_deleted(tmp_path: Path) -> None:
    archive(tmp_path, "delta")
    leave(tmp_path, LEFTOVER, days=2)

    facts = Compact(path=str(tmp_path), format="delta").plan().facts

    assert (facts["files to join"], facts["groups of them"], facts["files to delete"]) == (2, 1, 1)
    done = Compact(path=str(tmp_path), format="delta").run().facts
    assert (done["files joined"], done["files after"], done["files deleted"]) == (2, 1, 1)


def test_old_days_of_a_delta_table_are_dropped(tmp_path: Path) -> None:
    table = opened("delta", tmp_path)
    old = [written(tmp_path, first, 10, day=str(LONG_AGO)) for first in (0, 10)]
    table.append("query", 0, [*old, written(tmp_path, 30, 5, day=str(TODAY))])
    job = Compact(path=str(tmp_path), format="delta", keep="30d")

    planned, done = job.plan().facts, job.run().facts

    assert (planned["files of days to drop"], planned["files to join"]) == (2, 0)
    assert (done["files of dropped days"], done["files joined"], done["files after"]) == (2, 0, 1)
    assert offsets(tmp_path, table) == list(range(30, 35))
    assert len(names_below(tmp_path)) == 3  # readers of earlier versions still have them
    assert job.run().facts["files of dropped days"] == 0


def test_the_files_of_a_table_that_is_dropped_whole_are_deleted_later(tmp_path: Path) -> None:
    archive(tmp_path, day=str(LONG_AGO))
    assert Compact(path=str(tmp_path), keep="30d").run().facts["files after"] == 0
    assert len(names_below(tmp_path)) == 2

    facts = Compact(path=str(tmp_path), keep="30d", orphans_after="0s").run().facts

    assert facts["files deleted"] == 2
    assert names_below(tmp_path) == []


def test_in_an_object_store_somebody_has_to_say_that_nobody_else_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(tmp_path)
    root = store_of(tmp_path, monkeypatch)

    assert "may lose what an archive commits" in refused(Compact(path=root))
    assert Compact(path=root, alone=True).run().facts["files joined"] == 2

    assert offsets(tmp_path, ParquetTable(str(tmp_path))) == [0, 1]
