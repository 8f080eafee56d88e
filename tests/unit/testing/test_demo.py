"""The demo deletes what a demo made, and nothing else."""

from pathlib import Path

import pytest

from emberq.errors import EmberqError
from emberq.testing.demo import new_home


def test_a_folder_of_somebody_is_kept(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("years of work")

    for place in (tmp_path, thesis):
        with pytest.raises(EmberqError, match="name a new folder"):
            new_home(place)

    assert thesis.read_text() == "years of work"


def test_a_new_folder_an_empty_one_and_one_of_a_demo_are_taken(tmp_path: Path) -> None:
    new_home(tmp_path)
    (tmp_path / "report.html").touch()
    (tmp_path / "lake").mkdir()

    again = new_home(tmp_path)

    assert again == tmp_path
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []
    assert new_home(tmp_path / "a" / "b").is_dir()
