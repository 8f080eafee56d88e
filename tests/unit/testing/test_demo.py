"""The demo deletes what a demo made, and nothing else; its orders come as in a day."""

from itertools import pairwise
from pathlib import Path

import pytest

from emberq.errors import EmberqError
from emberq.testing.demo import DAY_PIECES, ORDERS, new_home, orders_by_pieces


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


def test_all_orders_come_within_the_day_and_most_of_them_about_noon() -> None:
    ends = orders_by_pieces()
    pieces = [end - begin for begin, end in pairwise([0, *ends])]

    assert (len(ends), ends[-1]) == (DAY_PIECES, ORDERS)
    assert min(pieces) > 0
    assert pieces.index(max(pieces)) in (DAY_PIECES // 2 - 1, DAY_PIECES // 2)
