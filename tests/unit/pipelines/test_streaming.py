"""What a query says of itself."""

import logging
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from emberq.pipelines.streaming import rest_text, run_query, spark_duration, trigger_options


@pytest.mark.parametrize(
    ("done", "total", "seen"),
    [
        (0, 400, ", 400 left"),
        (100_000, 400_000, ", 300,000 left, about 6 s"),
        (400, 400, ""),
        (500, 400, ""),
    ],
)
def test_what_is_left_takes_as_long_as_what_was_done(done: int, total: int, seen: str) -> None:
    assert rest_text(done, total, 2.0) == seen


@pytest.mark.parametrize("number", [1, 9, 57, 1001, 4007, 8190, 9_999_999])
def test_durations_are_passed_on_to_the_millisecond(number: int) -> None:
    text = f"{number}ms"

    assert spark_duration("window", text) == f"{number} milliseconds"
    assert trigger_options(text) == {"processingTime": f"{number} milliseconds"}


class EndlessQuery:
    """A stream that goes on until it is stopped; it is interrupted after a while."""

    def __init__(self, interrupted_at: int, batch_ends_at: int = 0) -> None:
        self.recentProgress: list[object] = []
        self.lastProgress: dict[str, int] | None = None
        self.polls = 0
        self.is_stopped = False
        self._interrupted_at = interrupted_at
        self._batch_ends_at = batch_ends_at

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": self.polls < self._batch_ends_at}

    def start(self) -> "EndlessQuery":
        return self

    def awaitTermination(self, seconds: float) -> bool:
        self.polls += 1
        assert self.polls < 100
        if self.polls == self._interrupted_at:
            signal.raise_signal(signal.SIGINT)
        return self.is_stopped

    def stop(self) -> None:
        self.is_stopped = True


def test_an_interrupt_lets_the_batch_that_runs_end() -> None:
    query = EndlessQuery(interrupted_at=3, batch_ends_at=9)
    said: list[str] = []

    run_query(query, said.append)  # type: ignore[arg-type] # stands for a writer and its query

    assert (query.polls, query.is_stopped) == (9, True)
    assert said == ["stopping behind the batch that runs; Ctrl-C once more does not wait for it"]


def test_an_interrupt_stops_a_stream_whose_next_batch_has_begun() -> None:
    query = EndlessQuery(interrupted_at=3, batch_ends_at=1000)
    query.lastProgress = {"batchId": 4}

    def say(_: str) -> None:
        query.lastProgress = {"batchId": 5}

    run_query(query, say)  # type: ignore[arg-type] # stands for a writer and its query

    assert query.is_stopped


def test_a_second_interrupt_does_not_wait_for_the_batch() -> None:
    query = EndlessQuery(interrupted_at=3, batch_ends_at=1000)

    levels: list[int] = []

    def say(_: str) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            levels.append(logging.root.manager.disable)

    run_query(query, say)  # type: ignore[arg-type] # stands for a writer and its query

    assert (query.polls, query.is_stopped) == (3, True)
    assert levels == [logging.ERROR]  # so that nobody logs the call that is broken off
    assert logging.root.manager.disable == logging.NOTSET


def test_an_interrupt_ends_a_stream_and_leaves_the_handler_that_was_there() -> None:
    query, before = EndlessQuery(interrupted_at=3), signal.getsignal(signal.SIGINT)
    said: list[str] = []

    run_query(query, said.append)  # type: ignore[arg-type] # stands for a writer and its query

    assert (query.polls, query.is_stopped, said) == (3, True, ["stopping"])
    assert signal.getsignal(signal.SIGINT) is before


class News(dict[str, Any]):
    """Of a trigger, as Spark tells it."""

    @property
    def numInputRows(self) -> int:
        return int(self["rows"])


def news(batch: int, at: str, rows: int) -> News:
    return News(batchId=batch, timestamp=at, rows=rows, durationMs={})


class TalkativeQuery:
    """A stream that ends with the last of what it says at each look."""

    def __init__(self, *looks: list[News]) -> None:
        self._looks = list(looks)
        self.recentProgress: list[News] = []

    def start(self) -> "TalkativeQuery":
        return self

    def awaitTermination(self, seconds: float) -> bool:
        self.recentProgress = self._looks.pop(0)
        return not self._looks


def test_batches_of_which_nothing_passed_a_filter_count_for_a_group_and_are_not_told() -> None:
    filtered, full = news(0, "10:00:00", 0), news(1, "10:00:01", 7)
    query = TalkativeQuery([filtered], [filtered], [filtered, full], [filtered, full])
    taken: list[News] = []
    said: list[str] = []
    batches: list[int] = []
    tracker = SimpleNamespace(take=taken.append)

    run_query(
        query,  # type: ignore[arg-type] # stands for a writer and its query
        said.append,
        on_batches=lambda: batches.append(len(said)),
        tracker=tracker,  # type: ignore[arg-type] # all that is asked of it
    )

    assert taken == [filtered, full]
    assert [text.partition(":")[0] for text in said] == ["batch 1"]
    assert batches == [1]


def test_a_batch_is_told_though_its_query_waited_under_its_number() -> None:
    waiting, done = news(4, "10:00:00", 0), news(4, "10:00:09", 2)
    taken: list[News] = []
    said: list[str] = []

    run_query(
        TalkativeQuery([waiting], [waiting, done], [waiting, done]),  # type: ignore[arg-type]
        said.append,
        tracker=SimpleNamespace(take=taken.append),  # type: ignore[arg-type]
    )

    assert taken == [waiting, done]
    assert len(said) == 1
