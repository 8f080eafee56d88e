"""What all pages of figures have: a part between two marks, and a table of goals."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.figures import Goal

README = Path(__file__).parent / "README.md"

_VERDICTS = {True: "met", False: "**missed**", None: "open"}


def write_part(page: Path, name: str, lines: Iterable[str]) -> None:
    """Put lines in the place of those between the marks of that name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, _, rest = page.read_text().partition(begin)
    after = rest.partition(end)[2]
    text = "\n".join(lines)
    page.write_text(f"{before}{begin}{text}\n{end}{after}")


def goal_table(goals: Iterable[Goal]) -> Iterator[str]:
    yield "| Goal | Wanted | Measured | |"
    yield "|---|---|---|---|"
    for goal in goals:
        cause = f": {goal.cause}" if goal.cause else ""
        yield f"| {goal.name} | {goal.target} | {goal.measured} | {verdict(goal.is_met)}{cause} |"


def verdict(is_met: bool | None) -> str:
    return _VERDICTS[is_met]
