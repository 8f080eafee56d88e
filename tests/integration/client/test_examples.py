"""Every example runs, as a user would run it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.testing.local_cluster import LocalCluster, run_cluster

pytestmark = pytest.mark.integration

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.py"))
LAST_LINES = {
    "first_steps": "handled {'number': ",
    "many_at_once": "1000 messages, each in its own place",
    "later": "reminded of tea",
    "in_order": "grace: created → paid → shipped",
    "pull_and_commit": "committed",
    "request_reply": "beer: not sold here",
    "transactions": "order-2 was never seen",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with run_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_does_what_it_says(example: Path, running: LocalCluster) -> None:
    done = subprocess.run(
        [sys.executable, str(example), running.name_server],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(LAST_LINES[example.stem])
