"""The bar of Spark's tasks, and lines above it."""

import io
import time

import pytest

from emberq.cli.task_bar import TaskBar, Tasks, bar_text, running_tasks
from emberq.pipelines.pace import expect


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("tasks", "seconds", "seen"),
    [
        (Tasks(0, 20), 2.0, "[------------------------------] 0 of 20 tasks, 2 s"),
        (
            Tasks(10, 20),
            5.0,
            "[###############---------------] 10 of 20 tasks, 2.0/s, about 5 s left",
        ),
        (
            Tasks(1_500, 1_500),
            3.0,
            "[##############################] 1,500 of 1,500 tasks, 500.0/s, about 0 s left",
        ),
    ],
)
def test_rate_and_remaining_time_go_by_what_is_done(
    tasks: Tasks, seconds: float, seen: str
) -> None:
    assert bar_text(tasks, seconds) == seen


@pytest.mark.parametrize(
    ("left_s", "seen"),
    [
        (1_790.0, "7 of 8 tasks, about 1,790 s left"),
        (-3.0, "7 of 8 tasks, 10 s"),  # it takes longer, nobody knows how long
    ],
)
def test_what_a_job_expects_counts_more_than_its_tasks(left_s: float, seen: str) -> None:
    assert bar_text(Tasks(7, 8), 10.0, left_s).endswith(seen)


def test_the_time_that_is_expected_runs_from_when_it_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("emberq.cli.task_bar._TICK_S", 0.001)
    monkeypatch.setattr("emberq.cli.task_bar._DELAY_S", 0.0)
    terminal = Terminal()

    with TaskBar(terminal, lambda: Tasks(7, 8)) as bar:
        expect(bar, 1_800.4)
        deadline = time.monotonic() + 10
        while "7 of 8 tasks, about 1,800 s left" not in terminal.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.001)


def test_a_line_stands_above_the_bar_and_nothing_is_left_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("emberq.cli.task_bar._TICK_S", 0.001)
    monkeypatch.setattr("emberq.cli.task_bar._DELAY_S", 0.0)
    terminal = Terminal()

    with TaskBar(terminal, lambda: Tasks(1, 2)) as bar:
        deadline = time.monotonic() + 10
        while "1 of 2 tasks" not in terminal.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        bar("batch 0")

    written = terminal.getvalue()
    assert "\r\x1b[2Kbatch 0\n" in written
    assert written.endswith(("\r\x1b[2K", "batch 0\n"))


def test_a_pipe_that_leads_to_a_terminal_has_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emberq.cli.task_bar._TICK_S", 0.001)
    monkeypatch.setattr("emberq.cli.task_bar._DELAY_S", 0.0)
    pipe = io.StringIO()

    with TaskBar(pipe, lambda: Tasks(1, 2), is_watched=True):
        deadline = time.monotonic() + 10
        while "1 of 2 tasks" not in pipe.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.001)

    assert pipe.getvalue().endswith("\r\x1b[2K")


def test_where_nobody_watches_there_are_lines_only() -> None:
    file = io.StringIO()

    with TaskBar(file, lambda: Tasks(1, 2)) as bar:
        bar("batch 0")

    assert file.getvalue() == "batch 0\n"


def test_without_a_session_there_is_nothing_to_show() -> None:
    assert running_tasks() is None
