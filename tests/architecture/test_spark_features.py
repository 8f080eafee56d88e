"""The page that compares claims nothing without a test."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "reference" / "spark-features.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))
# Cells in which the last column says that we cannot.
ABSENT = ("Real-time mode",)


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("Feature", "") and set(row[0]) != {"-"}]


@pytest.mark.parametrize(("file", "test"), NAMED, ids=str)
def test_every_test_that_the_page_names_is_there(file: str, test: str) -> None:
    source = (TESTS / file).read_text()

    assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE)


def test_every_row_names_a_test_or_says_that_we_lack_it() -> None:
    without = [row[0] for row in rows() if "::test_" not in row[-1]]

    assert without == list(ABSENT)
