"""A server program of ours, run for a test: started, read until it is ready, stopped, killed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

from emberq.errors import EmberqError

BOOT_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 20.0


class LocalProcess:
    """A running program and the line by which it said that it was ready."""

    def __init__(
        self, process: "subprocess.Popen[str]", ready: "re.Match[str]", log_file: Path
    ) -> None:
        self.process = process
        self.ready = ready
        self.log_file = log_file

    def log(self) -> str:
        """What it wrote to stderr so far."""
        return self.log_file.read_text()

    def stop(self) -> int:
        """Ask it to stop and wait; returns its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """End it as a crash does, without a word."""
        return self._end(getattr(signal, "SIGKILL", signal.SIGTERM))

    def _end(self, how: signal.Signals) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(STOP_TIMEOUT_S)


@contextmanager
def run_program(
    options: Sequence[str],
    ready_line: "re.Pattern[str]",
    *,
    log_file: Path,
    environment: Mapping[str, str] | None = None,
    **popen: Any,
) -> Iterator[LocalProcess]:
    """Run `emberq` with these options until the block ends. `popen` goes to `subprocess.Popen`.

    Raises:
        EmberqError: it ended before it was ready; the message is what it said.
    """
    with (
        log_file.open("a") as log,
        subprocess.Popen(
            [sys.executable, "-m", "emberq", *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **(environment or {})},
            **popen,
        ) as process,
    ):
        try:
            ready = _wait_until_ready(process, ready_line, log_file)
            yield LocalProcess(process, ready, log_file)
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_ready(
    process: "subprocess.Popen[str]", ready_line: "re.Pattern[str]", log_file: Path
) -> "re.Match[str]":
    assert process.stdout is not None
    # Killing a program that says nothing ends the read below.
    alarm = Timer(BOOT_TIMEOUT_S, process.kill)
    alarm.start()
    try:
        line = process.stdout.readline()
    finally:
        alarm.cancel()
    ready = ready_line.fullmatch(line)
    if ready is None:
        process.kill()
        raise EmberqError(f"emberq did not start: {line}{log_file.read_text()}")
    return ready
