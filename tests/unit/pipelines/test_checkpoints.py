"""Checkpoints: what a killed driver left in them, and how far their query is."""

from pathlib import Path

import pytest

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.pipelines.checkpoints import (
    checkpoint_at,
    done_offsets,
    forget_drafts,
    newest_batch,
    planned_batch,
    writer_of,
)

DRAFT = ".0.4b1f.tmp"


def checkpoint(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1")
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_drafts_of_the_first_batch_are_removed(tmp_path: Path) -> None:
    checkpoint(tmp_path, f"offsets/{DRAFT}", f"offsets/.{DRAFT}.crc", "metadata")

    forget_drafts(str(tmp_path))

    assert files(tmp_path) == {"metadata"}


@pytest.mark.parametrize("planned", ["offsets/0", "offsets/12", "commits/0"])
def test_a_checkpoint_with_a_batch_stays_as_it_is(tmp_path: Path, planned: str) -> None:
    names = (planned, f"offsets/{DRAFT}", "state/0/0/1.delta")
    checkpoint(tmp_path, *names)

    forget_drafts(str(tmp_path))

    assert files(tmp_path) == set(names)


def test_a_new_query_has_no_checkpoint(tmp_path: Path) -> None:
    forget_drafts(str(tmp_path / "new"))

    assert not (tmp_path / "new").exists()


def test_the_last_finished_batch_says_where_all_topics_go_on(tmp_path: Path) -> None:
    checkpoint(tmp_path, "commits/8", "commits/9", "commits/.9.crc", "offsets/10")
    (tmp_path / "offsets" / "9").write_text(
        'v1\n{"batchWatermarkMs":0}\n'
        '{"@version":1,"orders":{"a":{"0":7,"1":9}}}\n'
        "-\n"
        '{"an offset":"of another source"}\n'
        '{"@version":1,"orders":{"a":{"1":8}},"refunds":{"b":{"2":3}}}\n'
    )

    assert done_offsets(str(tmp_path)) == {
        MessageQueue("a", 0, "orders"): 7,
        MessageQueue("a", 1, "orders"): 8,
        MessageQueue("b", 2, "refunds"): 3,
    }


def test_a_query_that_finished_nothing_has_no_offsets(tmp_path: Path) -> None:
    checkpoint(tmp_path, "offsets/0", f"commits/{DRAFT}")

    assert done_offsets(str(tmp_path)) is None
    assert done_offsets(str(tmp_path / "none")) is None


def test_what_only_spark_reaches_is_refused_without_its_session() -> None:
    with pytest.raises(ConfigError, match="need a folder that both see"):
        checkpoint_at("hdfs://cluster/checkpoints/orders")


def test_a_checkpoint_has_one_writer_for_good(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")

    assert writer_of(first) == writer_of(first)
    assert writer_of(first) != writer_of(second)


def test_the_newest_batch_is_that_with_the_highest_number(tmp_path: Path) -> None:
    checkpoint(tmp_path, "offsets/9", "offsets/10", f"offsets/{DRAFT}")

    assert planned_batch(checkpoint_at(str(tmp_path))) == 10
    assert planned_batch(checkpoint_at(str(tmp_path / "new"))) is None
    assert newest_batch(["_spark_metadata/9.compact", "_spark_metadata/.10.tmp"]) == 9
