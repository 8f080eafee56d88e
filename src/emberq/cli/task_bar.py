"""How far Spark is with its tasks: a bar below what a job says, where somebody watches."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import click

_BAR_WIDTH = 30
# A job shorter than this needs no bar, and one that is there is drawn anew so often.
_DELAY_S = 1.0
_TICK_S = 0.25
_CLEAR_LINE = "\r\x1b[2K"


class Tasks(NamedTuple):
    """Of the jobs that Spark is at."""

    done: int
    total: int


class TaskBar:
    """Lines are said through it, so that they stand above the bar. The time that is left goes by
    tasks, or by what a job expects."""

    def __init__(
        self,
        stream: TextIO | None = None,
        look: "Callable[[], Tasks | None] | None" = None,
        *,
        is_watched: bool = False,
    ) -> None:
        """`is_watched`: a terminal is behind the stream, even if it does not look so."""
        self._stream = stream or sys.stderr
        self._look = look or running_tasks
        self._is_watched = is_watched or self._stream.isatty()
        self._writing = threading.Lock()
        self._is_over = threading.Event()
        self._is_drawn = False
        self._end_at: float | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "TaskBar":
        if self._is_watched:
            self._thread = threading.Thread(target=self._run, name="emberq-task-bar", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        with self._writing:
            self._clear()

    def expect(self, seconds: float) -> None:
        """What begins now takes so long."""
        self._end_at = time.monotonic() + seconds

    def __call__(self, text: str) -> None:
        with self._writing:
            self._clear()
            click.echo(text, file=self._stream)

    def _run(self) -> None:
        began_at, before = time.monotonic(), 0
        while not self._is_over.wait(_TICK_S):
            tasks = self._look() or Tasks(0, 0)
            if not tasks.total or tasks.done < before:  # nothing, or the next job
                began_at = time.monotonic()
            before = tasks.done
            seconds = time.monotonic() - began_at
            with self._writing:
                self._clear()
                if tasks.total and seconds >= _DELAY_S:
                    self._stream.write(bar_text(tasks, seconds, self._left()))
                    self._stream.flush()
                    self._is_drawn = True

    def _left(self) -> float | None:
        return None if self._end_at is None else self._end_at - time.monotonic()

    def _clear(self) -> None:
        if self._is_drawn:
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
            self._is_drawn = False


def bar_text(tasks: Tasks, seconds: float, left_s: float | None = None) -> str:
    """A bar with rate and remaining time: by the tasks that are done, unless it is known."""
    share = min(tasks.done / tasks.total, 1.0)
    filled = round(share * _BAR_WIDTH)
    text = f"[{'#' * filled}{'-' * (_BAR_WIDTH - filled)}] {tasks.done:,} of {tasks.total:,} tasks"
    if left_s is not None:  # past its end, nobody knows
        return f"{text}, about {left_s:,.0f} s left" if left_s > 0 else f"{text}, {seconds:,.0f} s"
    if not tasks.done:
        return f"{text}, {seconds:,.0f} s"
    rate = tasks.done / seconds
    left = (tasks.total - tasks.done) / rate
    return f"{text}, {rate:,.1f}/s, about {left:,.0f} s left"


def running_tasks() -> Tasks | None:
    """Asked of the session of this process, if there is one by now."""
    # Perhaps it is being imported at this moment.
    kind: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    context = getattr(kind, "_active_spark_context", None)
    if context is None:
        return None
    try:
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
        ids = {stage for job in jobs if job is not None for stage in job.stageIds}
        stages = [stage for stage in map(tracker.getStageInfo, ids) if stage is not None]
    except Exception:  # the session ends at any moment, in many ways
        return None
    return Tasks(
        sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
    )
