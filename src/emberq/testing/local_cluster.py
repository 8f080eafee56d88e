"""A name server and brokers for tests: `emberq standalone` on free ports, in its own folder."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emberq.testing.local_process import LocalProcess, run_program

READY_LINE = re.compile(r"EmberQ runs\. Name server (\S+); brokers: (.+)\n")


class LocalCluster:
    """A running `emberq standalone`."""

    def __init__(self, program: LocalProcess, data: Path) -> None:
        self.program = program
        self.data = data
        self.name_server = program.ready[1]
        # name → host:port
        self.brokers = dict(entry.split(" ") for entry in program.ready[2].split(", "))

    def stop(self) -> int:
        """Ask it to stop and wait; returns its exit code."""
        return self.program.stop()

    def kill(self) -> int:
        """End it as a crash does, without a word."""
        return self.program.kill()


@contextmanager
def run_cluster(data: Path, *options: str, **popen: Any) -> Iterator[LocalCluster]:
    """Run `emberq standalone` until the block ends; restarts in the same folder find its data.

    Raises:
        EmberqError: it ended before it was ready; the message is what it said.
    """
    data.mkdir(parents=True, exist_ok=True)
    command = ["standalone", "--data", str(data), "--namesrv-port", "0", "--port", "0", *options]
    with run_program(command, READY_LINE, log_file=data / "standalone.log", **popen) as program:
        yield LocalCluster(program, data)
