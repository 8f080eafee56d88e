"""`make demo`, as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEADLINE_S = 300.0


@pytest.mark.timeout(DEADLINE_S + 20)
def test_the_demo_shows_what_it_promises_and_leaves_files_and_a_report(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, "-m", "emberq.testing.demo", str(home)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    said = done.stdout
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert [number for number in re.findall(r"^\[(\d)/9\]", said, re.MULTILINE)] == [*"123456789"]
    assert re.search(r"20,000 orders of a day sent in \d+ s, every one acknowledged", said)
    assert "19,950 orders billed" in said
    assert found(said, r"dead letters +([\d,]+)") == 50
    archived = found(said, r"archive: ([\d,]+) messages")
    assert archived > 20_000 + 50
    assert found(said, r"expected +([\d,]+)") == found(said, r"archived +([\d,]+)") == archived
    assert [found(said, rf"{what} +(\d+)") for what in ("missing", "twice", "differ")] == [0, 0, 0]
    assert "verify: archive and topics agree, body by body" in said
    assert f"statistics: {home / 'report.html'}" in said
    assert (home / "report.html").is_file()
    files = [*(home / "lake").rglob("*.parquet")]
    assert found(said, r"in (\d+) Parquet files") == len(files) > 0


def found(said: str, pattern: str) -> int:
    """The number of a fact, which stands at the end of a line, or in a step."""
    numbers = re.findall(rf"^(?:\[./9\]|  ).*?{pattern}", said, re.MULTILINE)
    assert numbers, pattern
    return int(numbers[-1].replace(",", ""))
