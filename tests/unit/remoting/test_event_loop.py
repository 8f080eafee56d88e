"""Which loop runs our programs."""

import asyncio
import sys

import pytest

from emberq.remoting.event_loop import loop_factory, run


async def name_of_loop() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_uvloop_runs_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvloop")
    monkeypatch.delenv("EMBERQ_LOOP", raising=False)

    assert run(name_of_loop()) == "uvloop"


def test_the_environment_may_ask_for_asyncios_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBERQ_LOOP", "asyncio")

    assert run(name_of_loop()) == "asyncio"


def test_without_uvloop_it_is_asyncios_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBERQ_LOOP", raising=False)
    monkeypatch.setitem(sys.modules, "uvloop", None)

    assert loop_factory() is None
    assert run(name_of_loop()) == "asyncio"
