"""Programs that run as one."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emberq.cli import supervisor
from emberq.cli.supervisor import Program, supervised
from emberq.errors import EmberqError
from tests.support.waiting import until

READY = re.compile(r"ready (\S+)\n")
# Writes down when it was told to stop.
SERVER = """
import signal, sys, pathlib
name, folder = sys.argv[1:]
def stop(*_):
    with open(pathlib.Path(folder, "stopped"), "a") as file:
        file.write(name + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("some words", flush=True)
print("ready", name, flush=True)
while True:
    signal.pause()
"""


def server(name: str, folder: Path) -> Program:
    return Program(
        name=name, command=[sys.executable, "-c", SERVER, name, str(folder)], ready_line=READY
    )


def script(name: str, text: str) -> Program:
    return Program(name=name, command=[sys.executable, "-c", text], ready_line=READY)


def listener() -> tuple[list[str], Callable[[str, str], None]]:
    said: list[str] = []
    return said, lambda name, line: said.append(f"{name}: {line.rstrip()}")


async def test_programs_are_ready_together_and_stop_last_one_first(tmp_path: Path) -> None:
    said, say = listener()

    async with supervised([server("a", tmp_path), server("b", tmp_path)], say) as children:
        ready = [child.ready[1] for child in children if child.ready]

    assert ready == ["a", "b"]
    assert sorted(said) == ["a: some words", "b: some words"]
    assert (tmp_path / "stopped").read_text() == "b\na\n"


async def test_a_killed_program_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "RESTART_FIRST_S", 0.01)
    async with supervised([server("a", tmp_path)], listener()[1]) as (child,):
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: child.restarts == 1 and child.pid not in (None, first))


async def test_the_pause_before_a_restart_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def note(pause_s: float) -> None:
        pauses.append(pause_s)

    ends_at_once = script("a", "print('ready', 'a', flush=True)")
    monkeypatch.setattr("emberq.cli.supervisor.asyncio.sleep", note)
    async with supervised([ends_at_once], listener()[1]):
        async with asyncio.timeout(60):
            while len(pauses) < 7:
                await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(int))])

    assert pauses[:7] == [1, 2, 4, 8, 16, 30, 30]


async def test_one_that_cannot_start_ends_all(tmp_path: Path) -> None:
    said, say = listener()
    broken = script("b", "print('no room'); raise SystemExit(1)")

    with pytest.raises(EmberqError, match="b did not start"):
        async with supervised([server("a", tmp_path), broken], say):
            pytest.fail("it is not running")

    assert "b: no room" in said


async def test_one_that_does_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STOP_MAX_S", 0.05)
    deaf = script(
        "a",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready a', flush=True)\nwhile True: signal.pause()",
    )

    async with supervised([deaf], listener()[1]) as (child,):
        pass

    assert child.pid is None
