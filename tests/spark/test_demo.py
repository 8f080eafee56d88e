"""`make demo`, as a user runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

DEADLINE_S = 300.0


@pytest.mark.timeout(DEADLINE_S + 20)
def test_the_demo_reaches_its_end_and_leaves_files_and_a_report(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "emberq.testing.demo", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert "[9/9] verify: archive and topics agree" in done.stdout
    assert (tmp_path / "demo" / "report.html").is_file()
    assert list((tmp_path / "demo" / "lake" / "topic=orders").rglob("*.parquet"))
