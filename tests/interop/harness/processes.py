"""Child processes of a test run: ready by an output line, never left behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO

STOP_TIMEOUT_S = 10.0
SHOWN_LINES_MAX = 60
WRAPPER = Path(__file__).with_name("die_with_parent.py")
# logback of 5.x explains its own configuration on standard output at every start.
NOISE = re.compile(r"^\d\d:\d\d:\d\d,\d{3} \|-")

_alive: dict[int, "TestProcess"] = {}


def without_noise(lines: list[str]) -> list[str]:
    return [line for line in lines if not NOISE.match(line)]


def running_processes() -> list["TestProcess"]:
    """What the harness started and has not stopped: failure reports show their output."""
    return list(_alive.values())


class TestProcess:
    """A child in its own process group whose output lines can be waited for."""

    __test__ = False

    def __init__(
        self,
        name: str,
        command: list[str],
        home: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.home = home
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._has_ended = False
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WRAPPER), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=home,
            env=os.environ | (environment or {}),
            start_new_session=True,
        )
        self.pid = self._child.pid
        _alive[self.pid] = self
        self._reader = threading.Thread(target=self._read, name=f"output of {name}", daemon=True)
        self._reader.start()

    def __enter__(self) -> "TestProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def stdin(self) -> IO[str]:
        assert self._child.stdin is not None
        return self._child.stdin

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def wait_for_line(self, pattern: str, timeout_s: float, after: int = 0) -> str:
        """The first output line from index `after` on in which `pattern` is found."""
        expected = re.compile(pattern)
        deadline = time.monotonic() + timeout_s
        position = after
        with self._changed:
            while True:
                for line in self.lines[position:]:
                    if expected.search(line):
                        return line
                position = len(self.lines)
                if self._has_ended:
                    raise AssertionError(f"{self.name} ended without {pattern!r}\n{self.tail()}")
                if not self._changed.wait(deadline - time.monotonic()):
                    raise AssertionError(
                        f"{self.name}: no {pattern!r} within {timeout_s:.0f} s\n{self.tail()}"
                    )

    def wait_for_lines(self, first: int, count: int, timeout_s: float) -> list[str]:
        """`count` output lines from index `first` on."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self.lines) >= first + count or self._has_ended, timeout_s
            )
            lines = self.lines[first : first + count]
            assert len(lines) == count, f"{self.name} said too little\n{self.tail()}"
            return lines

    def wait_until_ended(self, timeout_s: float) -> int:
        """The exit code."""
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} still runs after {timeout_s:.0f} s\n{self.tail()}"
            ) from None
        self._reader.join(timeout_s)
        self._forget()
        return code

    def tail(self) -> str:
        return "\n".join(without_noise(self.lines)[-SHOWN_LINES_MAX:])

    def ask_to_end(self) -> None:
        """What an operator does; official brokers take their time over it."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, with everything it started."""
        self._signal(signal.SIGKILL)
        self._child.wait()
        self._reader.join(STOP_TIMEOUT_S)
        self._forget()

    def _signal(self, number: int) -> None:
        if self._child.poll() is None:
            os.killpg(self.pid, number)

    def _forget(self) -> None:
        _alive.pop(self.pid, None)
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                stream.close()
