"""A real broker for tests: the program itself, on a free port, with a store of its own."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emberq.config_file import to_file
from emberq.testing.local_process import LocalProcess, run_program

BOOT_LINE = re.compile(
    r"The broker\[(\S+), (\S+):(\d+)\] boot success\. serializeType=JSON"
    r"(?: and name server is (\S+))?\n"
)
# A store for tests: files of the official sizes would cost a gigabyte of disk each.
SMALL_STORE = {
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 1000),
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
}


class LocalBroker:
    """A running broker process."""

    def __init__(self, program: LocalProcess, home: Path) -> None:
        self.program = program
        self.home = home
        self.name = program.ready[1]
        self.host = program.ready[2]
        self.port = int(program.ready[3])

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def config_file(self) -> Path:
        return _config_file(self.home)

    @property
    def store(self) -> Path:
        return _store(self.home)

    def log(self) -> str:
        """What it wrote to stderr so far."""
        return self.program.log()

    def stop(self) -> int:
        """Ask it to stop and wait; returns its exit code."""
        return self.program.stop()

    def kill(self) -> int:
        """End it as a crash does, without a word."""
        return self.program.kill()


@contextmanager
def run_broker(
    home: Path,
    *options: str,
    name_servers: str = "",
    config: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    port: int = 0,
    **popen: Any,
) -> Iterator[LocalBroker]:
    """Run `emberq broker` until the block ends; it listens on the loopback interface.

    `config` becomes the configuration file of a home that has none yet: a restart in the same
    home finds what was stored there. On a free port (0) there is no second port two below.

    Raises:
        EmberqError: it ended before it was ready; the message is what it said.
    """
    home.mkdir(parents=True, exist_ok=True)
    file = _config_file(home)
    if not file.exists():
        defaults = {
            "bindAddress": "127.0.0.1",
            "brokerName": "broker-a",
            "storePathRootDir": str(_store(home)),
            **SMALL_STORE,
        }
        file.write_bytes(to_file({**defaults, **(config or {})}))
    command = ["broker", "-c", str(file), "--port", str(port)]
    if name_servers:
        command += ["-n", name_servers]
    environment = {"HOME": str(home), "NAMESRV_ADDR": "", **(environment or {})}
    with run_program(
        [*command, *options],
        BOOT_LINE,
        log_file=home / "broker.log",
        environment=environment,
        **popen,
    ) as program:
        yield LocalBroker(program, home)


def _config_file(home: Path) -> Path:
    return home / "broker.conf"


def _store(home: Path) -> Path:
    return home / "store"
