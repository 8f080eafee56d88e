"""Record what an official name server answers, for tests/golden/nameserver.

    python -m tools.capture_nameserver 5.5

starts the official server of that line once per scenario of `nameserver_scenarios` and
writes tests/golden/nameserver/VERSION.json. With `--only NAME` it prints one scenario instead.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.golden.nameserver.conversation import EVENTUALLY_TIMEOUT_S, Answer, Conversation, Step
from tests.interop.harness.artifacts import LINES, Line, server_jars
from tests.interop.harness.java import java_command, prepare_home
from tests.interop.harness.ports import free_port
from tests.interop.harness.processes import TestProcess
from tests.interop.harness.servers import BOOT_TIMEOUT_S, NAME_SERVER_BOOT
from tools.nameserver_scenarios import ONEWAY, SCENARIOS, Scenario

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "nameserver"
MAIN_CLASS = "org.apache.rocketmq.namesrv.NamesrvStartup"
HEAP_MB = 128
POLL_S = 0.05
# How long to listen before it counts as "no answer": for oneway calls none is expected.
ONEWAY_SILENCE_S = 1.0
SILENCE_S = 3.0


@contextmanager
def fresh_home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="capture-", ignore_cleanup_errors=True) as directory:
        prepare_home(Path(directory))
        yield Path(directory)


@contextmanager
def name_server(line: Line, home: Path, config: dict[str, str]) -> Iterator[tuple[int, str]]:
    """A running official name server: its port and its boot line."""
    port = free_port()
    settings = {"listenPort": str(port), "kvConfigPath": f"{home}/kvConfig.json"}
    settings |= {"configStorePath": f"{home}/namesrv.properties"} | config
    file = home / "namesrv.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = java_command(
        *(MAIN_CLASS, "-c", str(file)), class_path=[server_jars(line)], home=home, heap_mb=HEAP_MB
    )
    with TestProcess(f"name server {line.server_version}", command, home) as process:
        yield port, process.wait_for_line(NAME_SERVER_BOOT, BOOT_TIMEOUT_S)


def run_step(step: Step, talk: Conversation) -> dict[str, Any]:
    recorded: dict[str, Any] = {"kind": step.kind, "name": step.name}
    if step.kind == "file":
        path = talk.home / step.path
        content = talk.normalise(path.read_text("latin-1")) if path.exists() else None
        return recorded | {"path": step.path, "content": content}
    recorded["connection"] = step.connection
    if step.kind == "close":
        talk.close(step.connection)
        return recorded
    if step.kind == "heard":
        frame = talk.listener(step.connection).heard(SILENCE_S)
        return recorded | {"frame": frame.as_json(talk.normalise) if frame else None}
    if step.kind == "closed":
        is_closed = talk.connection(step.connection).is_closed_by_server(ONEWAY_SILENCE_S)
        return recorded | {"is_closed": is_closed}
    assert step.request is not None
    recorded["request"] = step.request.as_json()
    answer = ask(step, talk)
    return recorded | {"answer": answer.as_json(talk.normalise) if answer else None}


def ask(step: Step, talk: Conversation) -> Answer | None:
    assert step.request is not None
    request = talk.addressed(step.request)
    connection = talk.connection(step.connection)
    try:
        if step.until is None:
            silence_s = ONEWAY_SILENCE_S if request.flag & ONEWAY else SILENCE_S
            return connection.call(request, silence_s)
        deadline = time.monotonic() + EVENTUALLY_TIMEOUT_S
        while time.monotonic() < deadline:
            answer = connection.call(request)
            if answer is not None and step.until(answer):
                return answer
            time.sleep(POLL_S)
    except ConnectionError:
        return None
    raise SystemExit(f"{step.name}: never came true, last answer {answer}")


def capture(scenario: Scenario, line: Line) -> dict[str, Any]:
    print(f"  {scenario.name}", file=sys.stderr, flush=True)
    recorded: dict[str, Any] = {"name": scenario.name, "config": dict(scenario.config)}
    if scenario.files:
        recorded["files"] = dict(scenario.files)
    with fresh_home() as home:
        for name, text in scenario.files:
            (home / name).write_text(text)
        with name_server(line, home, dict(scenario.config)) as (port, _):
            talk = Conversation(port, home)
            try:
                recorded["steps"] = [run_step(step, talk) for step in scenario.steps()]
            finally:
                talk.close_all()
    return recorded


def boot_line(line: Line) -> str:
    with fresh_home() as home, name_server(line, home, {}) as (port, text):
        return text.replace(str(port), "{port}") + "\n"


def printed_configuration(line: Line) -> str:
    """Standard output of `-p`, which prints every key and exits."""
    with fresh_home() as home:
        # The broker's logging configuration would be found first and hide the console lines.
        libraries = home / "lib"
        libraries.mkdir()
        for jar in server_jars(line).glob("*.jar"):
            if not jar.name.startswith("rocketmq-broker"):
                (libraries / jar.name).symlink_to(jar)
        file = home / "namesrv.conf"
        file.write_text(f"kvConfigPath={home}/kvConfig.json\n")
        command = java_command(MAIN_CLASS, "-c", str(file), "-p", class_path=[libraries], home=home)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        lines = [text.split(" - ")[-1] for text in done.stdout.splitlines() if "|-" not in text]
        return "\n".join(lines).replace(str(home), "{home}")


def as_text(recorded: Any) -> str:
    return json.dumps(recorded, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("line", choices=[line.name for line in LINES])
    options.add_argument("--only", metavar="SCENARIO", help="print one scenario, write nothing")
    chosen = options.parse_args()
    line = next(line for line in LINES if line.name == chosen.line)
    scenarios = [scenario for scenario in SCENARIOS if line.server_version in scenario.lines]
    if chosen.only:
        named = [scenario for scenario in scenarios if scenario.name == chosen.only]
        print(as_text([capture(scenario, line) for scenario in named]))
        return
    golden = {
        "server": line.server_version,
        "boot_line": boot_line(line),
        "printed_configuration": printed_configuration(line),
        "scenarios": [capture(scenario, line) for scenario in scenarios],
    }
    (GOLDEN / f"{line.server_version}.json").write_text(as_text(golden))


if __name__ == "__main__":
    main()
