"""Where a store directory changes hands: an official broker on it, and a Java client to ask."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.interop.harness.artifacts import LINES, Line
from tests.interop.harness.cluster import wait_until_registered
from tests.interop.harness.java import client_class_path, java_command, prepare_home
from tests.interop.harness.ports import broker_port
from tests.interop.harness.processes import TestProcess
from tests.interop.harness.servers import (
    Broker,
    NameServer,
    start_emberq_broker,
    start_emberq_name_server,
    start_official_broker,
    wait_for_boot,
)
from tests.interop.store_sizes import BROKER_CONFIG

ANSWER_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 90.0
BROKER_NAME = "brk-store"


class Ending(Enum):
    """How a writer leaves a directory."""

    CLOSED = auto()
    KILLED = auto()


class StoreShell:
    """The official client of one line, in one JVM for all questions."""

    def __init__(self, line: Line, home: Path, name_server: str) -> None:
        prepare_home(home)
        command = java_command(
            *("StoreShell", name_server, BROKER_NAME),
            class_path=client_class_path(line),
            home=home,
            heap_mb=128,
            options=("-Drocketmq.client.logUseSlf4j=true",),
        )
        self.process = TestProcess(f"official client {line.client_version}", command, home)

    def ask(self, *words: str) -> list[str]:
        """The answer lines to a command."""
        start = len(self.process.lines)
        self.process.stdin.write("\t".join(quote(word) for word in words) + "\n")
        self.process.stdin.flush()
        head = self.process.wait_for_line(r"^answer \d+$", ANSWER_TIMEOUT_S, after=start)
        first = self.process.lines.index(head, start) + 1
        answer = self.process.wait_for_lines(first, int(head.split()[1]), ANSWER_TIMEOUT_S)
        assert not answer or not answer[0].startswith("failed "), self.process.tail()
        return answer


class Station:
    """One line's broker and client. The broker's address stays: it is part of message ids."""

    def __init__(self, line: Line, home: Path, port: int | None = None) -> None:
        self.line = line
        self.home = home
        self.port = port or broker_port()
        self._name_server: NameServer = start_emberq_name_server(home / "namesrv")
        wait_for_boot(self._name_server)
        self.shell = StoreShell(line, home / "client", self._name_server.address)
        self.broker: Broker | None = None

    @property
    def store(self) -> Path:
        """The directory that the broker opens when it starts."""
        return self.home / "broker" / "store"

    def bring(self, store: Path | None) -> None:
        """Put a copy of a store directory in the broker's place, or none."""
        assert self.broker is None, "a broker runs on the directory"
        shutil.rmtree(self.store, ignore_errors=True)
        if store is not None:
            copy_store(store, self.store)

    def keep(self, name: str) -> None:
        """Set a copy of the directory aside."""
        copy_store(self.store, self.kept(name))

    def kept(self, name: str) -> Path:
        return self.home / "kept" / name

    def start_broker(self) -> Broker:
        self.broker = start_official_broker(
            self.line,
            BROKER_NAME,
            self.home / "broker",
            [self._name_server],
            port=self.port,
            java_options=(),
            **BROKER_CONFIG,
        )
        return self.broker

    @contextmanager
    def serving(self, ending: Ending) -> Iterator[None]:
        """A broker on the directory, at last stopped by SIGTERM or killed by SIGKILL."""
        broker = self.start_broker()
        try:
            broker.wait_for_boot()
            wait_until_registered(self._name_server, broker)
            yield
            if ending is Ending.CLOSED:
                broker.process.ask_to_end()
                broker.process.wait_until_ended(STOP_TIMEOUT_S)
        finally:
            broker.process.kill()
            self.broker = None

    def start_in_vain(self) -> int:
        """The exit code of a broker that cannot take the directory."""
        broker = self.start_broker()
        try:
            return broker.process.wait_until_ended(STOP_TIMEOUT_S)
        finally:
            broker.process.kill()
            self.broker = None

    def end(self) -> None:
        for process in (self.shell.process, self._name_server.process):
            process.kill()
        shutil.rmtree(self.home, ignore_errors=True)


# CI's part of the moves of messages under way: our own store, killed. Each takes up to two minutes.
_IN_CI = ("5.5", "emberq", Ending.KILLED)
# From one side to the other and back, brokers of one line stopped or killed at every change.
there_and_back = pytest.mark.parametrize(
    ("line", "first", "ending"),
    [
        pytest.param(
            line,
            first,
            ending,
            id=f"{line.name}-{first}-{ending.name.lower()}",
            marks=() if (line.name, first, ending) == _IN_CI else pytest.mark.slow,
        )
        for line in LINES
        for first in ("official", "emberq")
        for ending in Ending
    ],
)


@contextmanager
def broker_on(
    home: Path, line: Line | None, ending: Ending, config: dict[str, str]
) -> Iterator[Broker]:
    """A line's official broker, or one of ours, on the directory in `home`; no name servers."""
    broker = (
        start_emberq_broker(BROKER_NAME, home, [], **config)
        if line is None
        else start_official_broker(
            line, BROKER_NAME, home, [], port=None, java_options=(), **config
        )
    )
    try:
        broker.wait_for_boot()
        yield broker
        if ending is Ending.CLOSED:
            broker.process.ask_to_end()
            broker.process.wait_until_ended(STOP_TIMEOUT_S)
    finally:
        broker.process.kill()


def copy_store(source: Path, target: Path) -> None:
    """What a user does with `cp -a`: 4.9 brokers look at the files' times."""
    shutil.copytree(source, target, copy_function=shutil.copy2)
