"""Record what an official name server answers, for tests/golden/nameserver.

    python -m tools.capture_nameserver --line 5.5.0 --jars DIRECTORY

starts the official server of that line once per scenario of `nameserver_scenarios` and
writes tests/golden/nameserver/LINE.json.
"""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.golden.nameserver.conversation import EVENTUALLY_TIMEOUT_S, Answer, Conversation, Step
from tools.nameserver_scenarios import ONEWAY, SCENARIOS, Scenario

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "nameserver"
SILENCE_S = 1.0
ANSWER_S = 3.0
BOOT_LINE = "boot success"
EMPTY_LOGBACK = '<configuration><root level="OFF"/></configuration>\n'
JVM = (
    *("-Xms128m", "-Xmx128m", "-XX:TieredStopAtLevel=1"),
    *("--add-opens", "java.base/java.nio=ALL-UNNAMED"),
    *("--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.util=ALL-UNNAMED"),
    *("--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def java_command(jars: Path, home: Path, *arguments: str) -> list[str]:
    return [
        *("java", *JVM, f"-Drocketmq.home.dir={home}", f"-Duser.home={home}"),
        *("-cp", f"{jars}/*", "org.apache.rocketmq.namesrv.NamesrvStartup", *arguments),
    ]


def prepare_home(home: Path) -> None:
    (home / "conf").mkdir(parents=True)
    for part in ("namesrv", "broker", "tools"):
        (home / "conf" / f"logback_{part}.xml").write_text(EMPTY_LOGBACK)


@contextmanager
def name_server(jars: Path, home: Path, config: dict[str, str]) -> Iterator[tuple[int, str]]:
    """A running official name server: its port and its boot line."""
    port = free_port()
    settings = {"listenPort": str(port), "kvConfigPath": f"{home}/kvConfig.json"}
    settings |= {"configStorePath": f"{home}/namesrv.properties"} | config
    (home / "namesrv.conf").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    process = subprocess.Popen(
        java_command(jars, home, "-c", f"{home}/namesrv.conf"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield port, wait_for_boot(process)
    finally:
        process.terminate()
        process.wait()


def wait_for_boot(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if BOOT_LINE in line:
            return line
    raise SystemExit("the name server ended before it was ready:\n" + "".join(seen[-20:]))


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
        frame = talk.listener(step.connection).heard(ANSWER_S)
        return recorded | {"frame": frame.as_json(talk.normalise) if frame else None}
    connection = talk.connection(step.connection)
    if step.kind == "closed":
        recorded["is_closed"] = connection.is_closed_by_server(SILENCE_S)
        return recorded
    assert step.request is not None
    recorded["request"] = step.request.as_json()
    started = time.monotonic()
    answer = ask(step, talk)
    elapsed_s = time.monotonic() - started
    if elapsed_s > 0.3:
        print(f"    {step.name}: {elapsed_s:.1f} s", file=sys.stderr)
    return recorded | {"answer": answer.as_json(talk.normalise) if answer else None}


def ask(step: Step, talk: Conversation) -> Answer | None:
    assert step.request is not None
    request = talk.addressed(step.request)
    connection = talk.connection(step.connection)
    try:
        if step.until is None:
            is_oneway = step.request.flag & ONEWAY
            return connection.call(request, SILENCE_S if is_oneway else ANSWER_S)
        deadline = time.monotonic() + EVENTUALLY_TIMEOUT_S
        while time.monotonic() < deadline:
            answer = connection.call(request)
            if answer is not None and step.until(answer):
                return answer
            time.sleep(0.05)  # a capture may poll; nothing depends on the pace
    except ConnectionError as closed:
        print(f"    {step.name}: {closed}", file=sys.stderr)
        return None
    raise SystemExit(f"{step.name}: never came true, last answer {answer}")


def capture(scenario: Scenario, jars: Path) -> dict[str, Any]:
    home = Path(tempfile.mkdtemp(prefix="capture-"))
    prepare_home(home)
    config = dict(scenario.config)
    for name, text in scenario.files:
        (home / name).write_text(text)
    try:
        with name_server(jars, home, config) as (port, _):
            talk = Conversation(port, home)

            print(f"  {scenario.name}", file=sys.stderr)
            steps = [run_step(step, talk) for step in scenario.steps()]
            talk.close_all()
            files = {"files": dict(scenario.files)} if scenario.files else {}
            return {"name": scenario.name, "config": config} | files | {"steps": steps}
    finally:
        shutil.rmtree(home)


def printed_configuration(jars: Path) -> str:
    """Standard output of `-p`, which prints every key and exits."""
    home = Path(tempfile.mkdtemp(prefix="capture-"))
    prepare_home(home)
    (home / "namesrv.conf").write_text(f"kvConfigPath={home}/kvConfig.json\n")
    # The broker's logging configuration would be found first and hide the console lines.
    (home / "lib").mkdir()
    for jar in jars.glob("*.jar"):
        if not jar.name.startswith("rocketmq-broker"):
            (home / "lib" / jar.name).symlink_to(jar)
    command = java_command(home / "lib", home, "-c", f"{home}/namesrv.conf", "-p")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    shutil.rmtree(home)
    lines = [line.split(" - ")[-1] for line in done.stdout.splitlines() if "|-" not in line]
    return "\n".join(lines).replace(str(home), "{home}")


def boot_line(jars: Path) -> str:
    home = Path(tempfile.mkdtemp(prefix="capture-"))
    prepare_home(home)
    with name_server(jars, home, {}) as (port, line):
        text = line.replace(str(port), "{port}")
    shutil.rmtree(home)
    return text


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--line", required=True, choices=("4.9.7", "5.5.0"))
    options.add_argument("--jars", required=True, type=Path)
    options.add_argument("--only", help="name of one scenario: print it, write nothing")
    chosen = options.parse_args()
    scenarios = [s for s in SCENARIOS if chosen.line in s.lines]
    if chosen.only:
        scenarios = [s for s in scenarios if s.name == chosen.only]
        print(
            json.dumps([capture(s, chosen.jars) for s in scenarios], ensure_ascii=False, indent=1)
        )
        return
    golden = {
        "server": chosen.line,
        "boot_line": boot_line(chosen.jars),
        "printed_configuration": printed_configuration(chosen.jars),
        "scenarios": [capture(scenario, chosen.jars) for scenario in scenarios],
    }
    text = json.dumps(golden, ensure_ascii=False, indent=1) + "\n"
    (GOLDEN / f"{chosen.line}.json").write_text(text)


if __name__ == "__main__":
    main()
