"""Programs that play scenarios with an official client: one JVM, Go or Node process each."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.interop.harness.artifacts import LINES, Line
from tests.interop.harness.foreign_programs import go_program, node_program
from tests.interop.harness.java import java_command, prepare_home, scenario_class_path
from tests.interop.harness.processes import TestProcess
from tests.interop.harness.sites import Site, Sites

START_TIMEOUT_S = 60.0
SCENARIO_TIMEOUT_S = 170.0

# The topics of a scenario and how many queues they have; the rest it creates by sending.
TOPICS: dict[str, dict[str, int]] = {
    "send": {"{}-send": 4},
    "sizes": {"{}-sizes": 1},
    "empty": {"{}-empty": 1},
    "unknown": {},
    "query": {"{}-query": 4},
    "ordered": {"{}-ordered": 4},
    "rebalance": {"{}-rebalance": 8},
    "broadcast": {"{}-broadcast": 4},
    "filter": {"{}-filter": 4},
    "namespace": {"SPACE%{}-namespace": 4},
    "reset": {"{}-reset": 4},
    "pull": {"{}-pull": 2},
    "lite": {"{}-lite": 4},
    "retry": {"{}-retry": 1},
    "suspend": {"{}-suspend": 1},
    "later": {"{}-later": 4},
    "transaction": {"{}-transaction": 4},
    "reply": {"{}-reply": 4},
    "trace": {"{}-trace": 1},
    "load": {"{}-load": 4},
}


@dataclass(frozen=True)
class Language:
    """A client library: how its program starts and what it can do."""

    name: str
    prefix: str
    tools: tuple[str, ...]
    scenarios: tuple[str, ...]
    command: Callable[[str, str, Path], list[str]]
    prepare: Callable[[], object] = lambda: None


class ScenarioClient:
    """A running program; one scenario at a time."""

    def __init__(self, language: Language, site: Site, home: Path) -> None:
        self.site = site
        self._prefix = language.prefix
        home.mkdir(parents=True, exist_ok=True)
        command = language.command(site.name_server.address, language.prefix, home)
        name = f"{language.name} on {site.broker.process.name}"
        # Offsets of broadcasting are files there, by names that both programs have.
        self.process = TestProcess(name, command, home, {"HOME": str(home)})
        self._start = 0

    def wait_until_ready(self) -> None:
        self.process.wait_for_line("^ready$", START_TIMEOUT_S)

    def begin(self, scenario: str) -> None:
        for topic, queues in TOPICS.get(scenario, {}).items():
            self.site.create_topic(topic.format(self._prefix), queues)
        self._start = len(self.process.lines)
        self._say(scenario)

    def finish(self) -> list[str]:
        head = self._wait_for(r"^answer \d+$|^reset \S+ \S+$")
        if head.startswith("reset "):
            _, topic, group = head.split()
            self.site.reset_offsets(topic, group)
            self._say("done")
            head = self._wait_for(r"^answer \d+$")
        first = self.process.lines.index(head, self._start) + 1
        answer = self.process.wait_for_lines(first, int(head.split()[1]), START_TIMEOUT_S)
        failures = [line for line in answer if line.startswith("failed ")]
        assert not failures, f"{self.process.name}: {failures}\n{self.process.tail()}"
        return answer

    def run(self, scenario: str) -> list[str]:
        self.begin(scenario)
        return self.finish()

    def _say(self, line: str) -> None:
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def _wait_for(self, pattern: str) -> str:
        return self.process.wait_for_line(pattern, SCENARIO_TIMEOUT_S, after=self._start)


@dataclass(frozen=True)
class ClientPair:
    """One program on each site, doing the same at the same time."""

    language: Language
    emberq: ScenarioClient
    official: ScenarioClient

    def run(self, scenario: str) -> tuple[list[str], list[str]]:
        self.emberq.begin(scenario)
        self.official.begin(scenario)
        return self.emberq.finish(), self.official.finish()

    def kill(self) -> None:
        for client in (self.emberq, self.official):
            client.process.kill()


def start_pair(language: Language, sites: Sites, home: Path) -> ClientPair:
    pair = ClientPair(
        language,
        ScenarioClient(language, sites.emberq, home / "on-emberq"),
        ScenarioClient(language, sites.official, home / "on-official"),
    )
    pair.emberq.wait_until_ready()
    pair.official.wait_until_ready()
    return pair


# Clients repeat what failed (a lock that another member still has) every 20 s by default.
JAVA_OPTIONS = (
    "-Drocketmq.client.logUseSlf4j=true",
    "-Drocketmq.client.rebalance.waitInterval=5000",
    "-Drocketmq.client.rebalance.lockInterval=1000",
)
# `load` and `empty` have tests of their own.
EVERY_SCENARIO = tuple(name for name in TOPICS if name not in {"load", "empty"})


def java(line: Line) -> Language:
    def command(name_server: str, prefix: str, home: Path) -> list[str]:
        prepare_home(home)
        return java_command(
            *("ScenarioShell", name_server, prefix),
            class_path=scenario_class_path(line),
            home=home,
            heap_mb=256,
            options=JAVA_OPTIONS,
        )

    prefix = f"java{line.name.replace('.', '')}"
    return Language(f"Java client {line.client_version}", prefix, (), EVERY_SCENARIO, command)


def go() -> Language:
    def command(name_server: str, prefix: str, _home: Path) -> list[str]:
        return [str(go_program()), name_server, prefix]

    left_out = {"query"}  # it cannot look messages up
    scenarios = tuple(name for name in EVERY_SCENARIO if name not in left_out)
    return Language("Go client 2.1.2", "go", ("go",), scenarios, command, go_program)


def node() -> Language:
    def command(name_server: str, prefix: str, _home: Path) -> list[str]:
        return ["node", str(node_program()), name_server, prefix]

    # It has no lock for queues, no pull consumer, no look-up of messages and no transactions.
    left_out = {"transaction", "reply", "trace", "query", "pull", "lite", "suspend", "later"}
    scenarios = tuple(name for name in EVERY_SCENARIO if name not in left_out)
    return Language(
        "Node client ali-ons 3.12.0", "node", ("node", "npm"), scenarios, command, node_program
    )


LANGUAGES = {
    **{f"java-{line.name}": java(line) for line in LINES},
    "go": go(),
    "node": node(),
}
