"""Checkpoints that a killed driver left."""

from pathlib import Path

import pytest

from emberq.pipelines.streaming import forget_drafts

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
