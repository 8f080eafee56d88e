"""What a query says of itself."""

import signal

import pytest

from emberq.pipelines.streaming import rest_text, run_query


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


class EndlessQuery:
    """A stream that goes on until it is stopped; it is interrupted after a while."""

    def __init__(self, interrupted_at: int) -> None:
        self.recentProgress: list[object] = []
        self.polls = 0
        self.is_stopped = False
        self._interrupted_at = interrupted_at

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


def test_an_interrupt_ends_a_stream_and_leaves_the_handler_that_was_there() -> None:
    query, before = EndlessQuery(interrupted_at=3), signal.getsignal(signal.SIGINT)
    said: list[str] = []

    run_query(query, said.append)  # type: ignore[arg-type] # stands for a writer and its query

    assert (query.polls, query.is_stopped, said) == (3, True, ["stopping"])
    assert signal.getsignal(signal.SIGINT) is before
