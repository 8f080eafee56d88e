"""Record what an official broker answers, for tests/golden/broker.

    python -m tools.capture_broker [AREA …] [--only SCENARIO]

starts an official 5.5.0 broker once per scenario of `broker_scenarios` and writes
tests/golden/broker/5.5.0-AREA.json for each area, or replaces one scenario in it. With `--print`
it prints instead.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.golden.broker.conversation import Conversation, Step
from tests.golden.broker.playing import NeverCameTrue, play
from tests.interop.harness.artifacts import LINES
from tests.interop.harness.servers import Broker, start_official_broker
from tools.broker_scenarios.areas import AREAS
from tools.broker_scenarios.steps import Scenario

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "broker"
LINE = next(line for line in LINES if line.name == "5.5")
IDENTITY = {"brokerClusterName": "C1", "brokerName": "brk-a"}


@contextmanager
def fresh_home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="capture-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextmanager
def official_broker(home: Path, config: dict[str, str]) -> Iterator[Broker]:
    broker = start_official_broker(
        LINE, "brk-a", home, [], port=None, java_options=(), **(IDENTITY | config)
    )
    try:
        broker.wait_for_boot()
        yield broker
    finally:
        broker.process.kill()


def record(step: Step, talk: Conversation) -> dict[str, Any]:
    recorded = step.as_json()
    if step.kind == "silent":
        recorded |= {"kind": "heard", "frame": None}
    try:
        seen = play(recorded, talk, step.until)
    except NeverCameTrue as error:  # then the last answer is what there is to know
        print(f"    {error}", file=sys.stderr, flush=True)
        seen = play(recorded, talk, None)
    if step.kind == "silent" and seen["frame"] is not None:
        raise SystemExit(f"{step.name}: heard {seen['frame']}")
    return recorded | seen


def capture(scenario: Scenario) -> dict[str, Any]:
    print(f"  {scenario.name}", file=sys.stderr, flush=True)
    recorded: dict[str, Any] = {"name": scenario.name, "config": dict(scenario.config)}
    with fresh_home() as home, official_broker(home, dict(scenario.config)) as broker:
        talk = Conversation(broker.port, home)
        try:
            recorded["steps"] = [record(step, talk) for step in scenario.steps()]
        finally:
            talk.close_all()
    names = [step["name"] for step in recorded["steps"]]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SystemExit(f"{scenario.name}: steps of the same name: {twice}")
    return recorded


def as_text(area: str, recorded: list[dict[str, Any]]) -> str:
    """One line per step: differences between two captures stay readable."""
    parts = []
    for scenario in recorded:
        steps = ",\n".join(compact(step) for step in scenario["steps"])
        head = f'"name":{compact(scenario["name"])},"config":{compact(scenario["config"])}'
        parts.append(f'{{{head},"steps":[\n{steps}\n]}}')
    head = f'"server":"{LINE.server_version}","area":{compact(area)}'
    return f'{{{head},"scenarios":[\n' + ",\n".join(parts) + "\n]}\n"


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("areas", nargs="*", metavar="AREA", help=", ".join(AREAS))
    options.add_argument("--only", metavar="SCENARIO", help="of these areas, replace this one")
    options.add_argument("--print", dest="prints", action="store_true", help="write nothing")
    chosen = options.parse_args()
    for area in chosen.areas or AREAS:
        print(area, file=sys.stderr, flush=True)
        scenarios = [scenario for scenario in AREAS[area] if chosen.only in (None, scenario.name)]
        recorded = [capture(scenario) for scenario in scenarios]
        if chosen.prints:
            print(as_text(area, recorded))
        else:
            write(area, recorded)


def write(area: str, recorded: list[dict[str, Any]]) -> None:
    """Those recorded now in the place of older ones; what is no scenario any more goes."""
    file = GOLDEN / f"{LINE.server_version}-{area}.json"
    known = {}
    if file.exists():
        known = {
            scenario["name"]: scenario for scenario in json.loads(file.read_text())["scenarios"]
        }
    known |= {scenario["name"]: scenario for scenario in recorded}
    kept = [known[scenario.name] for scenario in AREAS[area] if scenario.name in known]
    file.write_text(as_text(area, kept))


if __name__ == "__main__":
    main()
