"""Every example runs, as a user would run it, and the guides show nothing else."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from emberq import Client, Producer
from emberq.testing.local_cluster import LocalCluster, run_cluster
from tests.support.waiting import until

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parents[3] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
# These are no programs of one's own: a test of their own runs them.
SERVED = {"fastapi_app"}
PROGRAMS = [path for path in EXAMPLES if path.stem not in SERVED]
LAST_LINES = {
    "first_steps": "handled {'number': ",
    "hooks": "handled for request-42",
    "in_order": "grace: created → paid → shipped",
    "later": "reminded of tea",
    "logging_to_a_topic": "WARNING of shop.orders: ",
    "many_at_once": "1000 messages, each in its own place",
    "message_trace": "",
    "metrics": "True",
    "pull_and_commit": "committed",
    "request_reply": "beer: not sold here",
    "retry_and_dead_letters": "dead: the stolen card",
    "send_messages": "all sent",
    "transactions": "seen: ['order-1', 'order-2']",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with run_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.mark.parametrize("example", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_does_what_it_says(example: Path, running: LocalCluster) -> None:
    done = subprocess.run(
        [sys.executable, str(example), running.name_server],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    last = done.stdout.rstrip().splitlines()[-1]
    if example.stem == "message_trace":
        assert last.endswith("Pub → SubAfter → SubBefore")
    assert last.startswith(LAST_LINES[example.stem])


async def test_the_web_application_takes_orders_and_ships_them(
    running: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", running.name_server)
    module = runpy.run_path(str(FOLDER / "fastapi_app.py"))
    app = module["app"]
    transport = httpx.ASGITransport(app)

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as browser,
    ):
        taken = await browser.post("/orders", json={"number": 7, "customer": "ada"})
        refused = await browser.post("/orders", json={"number": "seven"})
        await until(lambda: module["shipped"])
        shipped = await browser.get("/shipped")
        health = await browser.get("/health")

    assert taken.status_code == 202
    assert len(taken.json()["message_id"]) == 32
    assert refused.status_code == 422
    assert shipped.json() == [7]
    assert health.json() == {"healthy": True}


class Meter:
    """As much of OpenTelemetry's as the example uses."""

    def __init__(self) -> None:
        self.told: dict[str, list[tuple[float, Mapping[str, str]]]] = {}

    def create_counter(self, name: str) -> Any:
        told = self.told.setdefault(name, [])
        return SimpleNamespace(add=lambda amount, labels: told.append((amount, labels)))

    def create_histogram(self, name: str, unit: str) -> Any:
        assert unit == "s"
        told = self.told.setdefault(name, [])
        return SimpleNamespace(record=lambda seconds, labels: told.append((seconds, labels)))


def test_the_metrics_for_opentelemetry_tell_its_meter(running: LocalCluster) -> None:
    metrics = runpy.run_path(str(FOLDER / "metrics.py"))["OpenTelemetryMetrics"]
    meter = Meter()
    with (
        Client(running.name_server, metrics=metrics(meter)) as client,
        Producer("meters", client=client) as producer,
    ):
        producer.send("metered", b"1")
        producer.send("metered", b"2")

    labels = {"group": "meters", "topic": "metered", "outcome": "ok"}
    assert meter.told["emberq.sent_messages"] == [(1, labels), (1, labels)]
    assert len(meter.told["emberq.send_seconds"]) == 2


def test_users_tests_run_with_the_fixture() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-c", os.devnull, "--rootdir", str(FOLDER / "testing"), str(FOLDER / "testing")),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


# The guides show what was run.


def _lines(text: str) -> list[str]:
    """Without what layout adds: a piece that stands alone has other blank lines."""
    return [line.strip() for line in text.splitlines() if line.strip()]


OVERVIEW = FOLDER.parent / "docs" / "guides" / "client.md"
LINKED = re.findall(r"\((\S+\.md)\) \|$", OVERVIEW.read_text(), re.MULTILINE)
GUIDES = [OVERVIEW.with_name(name) for name in LINKED]
LINES = [_lines(path.read_text()) for path in FOLDER.rglob("*.py")]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_piece_of_code_in_a_guide_is_part_of_an_example(guide: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL):
        assert any(_is_part(_lines(block), example) for example in LINES), block


def _is_part(lines: list[str], example: list[str]) -> bool:
    places = (number for number, line in enumerate(example) if line == lines[0])
    return any(example[place : place + len(lines)] == lines for place in places)
