"""Running a streaming query to its end, and saying how far it is."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Any

from emberq.errors import ConfigError
from emberq.pipelines.interrupts import Handler, interrupts_to, quiet_interrupts
from emberq.pipelines.job import Say
from emberq.spark.option_values import OptionTexts

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from emberq.spark.tracking import OffsetTracker

POLL_S = 1
# A batch that runs when Ctrl-C comes may end first, for so long.
BATCH_END_MAX_S = 120.0
_BATCH_LOOK_S = 0.02


def trigger_options(every: str) -> dict[str, Any]:
    """All that is there and then stop, or every so often."""
    if not every:
        return {"availableNow": True}
    seconds = OptionTexts({"every": every}, ["every"]).seconds("every", 0)
    if seconds <= 0:
        raise ConfigError(f"every={every!r}: expected a duration such as 30s")
    return {"processingTime": f"{round(seconds * 1000)} milliseconds"}


def seconds_of(name: str, text: str) -> float:
    """An option such as `1m`. Raises ConfigError."""
    seconds = OptionTexts({name: text}, [name]).seconds(name, 0)
    if seconds <= 0:
        raise ConfigError(f"{name}={text!r}: expected a duration such as 1m")
    return seconds


def spark_duration(name: str, text: str) -> str:
    """An option such as `1m` in Spark's words. Raises ConfigError."""
    # Rounded: 4.007 s times 1000 is a little less than 4007.
    return f"{round(seconds_of(name, text) * 1000)} milliseconds"


def run_query(
    writer: "DataStreamWriter",
    say: Say,
    *,
    on_progress: Callable[[Any], None] | None = None,
    on_batches: Callable[[], None] | None = None,
    tracker: "OffsetTracker | None" = None,
) -> None:
    """Start a query and wait for its end; Ctrl-C stops it behind the batch that runs, a second one
    at once. `on_progress` is told of each batch with rows, `on_batches` only that there were new
    ones, while the query runs."""
    query = writer.start()
    progress, interrupted = _Progress(query, say, on_progress, tracker), Event()
    try:
        with quiet_interrupts(), interrupts_to(_setter(interrupted)):
            while not (query.awaitTermination(POLL_S) or interrupted.is_set()):
                if progress.tell() and on_batches is not None:
                    on_batches()
            if interrupted.is_set():
                _let_batch_end(query, say)
    except KeyboardInterrupt:
        interrupted.set()
    except BaseException:
        with suppress(Exception):  # the failure that was first counts
            query.stop()
        raise
    if interrupted.is_set():
        query.stop()
    progress.tell()


def _let_batch_end(query: "StreamingQuery", say: Say) -> None:
    """Spark breaks off whatever a batch is in the midst of, with a thousand lines of traces if that
    is a function in Python; and its work would be done again."""
    if not query.status["isTriggerActive"]:
        say("stopping")
        return
    count, until_s = _batch_count(query), time.monotonic() + BATCH_END_MAX_S
    say("stopping behind the batch that runs; Ctrl-C once more does not wait for it")
    while _batch_count(query) == count and time.monotonic() < until_s:
        is_over = query.awaitTermination(_BATCH_LOOK_S)  # type: ignore[arg-type] # fractions too
        if is_over or not query.status["isTriggerActive"]:
            return


def _batch_count(query: "StreamingQuery") -> int:
    """Those that ended so far."""
    newest = query.lastProgress
    return 0 if newest is None else newest["batchId"] + 1


def _setter(interrupted: Event) -> Handler:
    """Ctrl-C sets the event instead of raising: an exception can get lost where Python cannot raise
    it, as in what gRPC calls back. A second one does what the first did until now."""
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        if not interrupted.is_set():
            interrupted.set()
        elif callable(before):
            before(number, frame)
        else:
            raise KeyboardInterrupt

    return note


class _Progress:
    """What a query says of itself, passed on once. Spark keeps its newest 100 pieces of news."""

    def __init__(
        self,
        query: "StreamingQuery",
        say: Say,
        on_progress: Callable[[Any], None] | None,
        tracker: "OffsetTracker | None",
    ) -> None:
        self._query = query
        self._tracker = tracker
        self._on_progress = on_progress or (lambda progress: say(progress_line(progress)))
        # By batch and time: a query that waits says so under the number of its next batch.
        self._told: set[tuple[int, str]] = set()

    def tell(self) -> bool:
        """Whether there were batches with rows."""
        recent = {(each["batchId"], each["timestamp"]): each for each in self._query.recentProgress}
        new = [each for key, each in recent.items() if key not in self._told]
        self._told = {*recent}
        if self._tracker is not None:
            for progress in new:  # also of batches of which a filter let nothing through
                self._tracker.take(progress)
        # The property: with Connect, the key of the same name has nothing.
        with_rows = [each for each in new if each.numInputRows]
        for progress in with_rows:
            self._on_progress(progress)
        return bool(with_rows)


def progress_line(progress: Any) -> str:
    """One line per batch: how much, how fast."""
    rows = progress.numInputRows
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    rate = rows / seconds if seconds else 0.0
    return f"batch {progress['batchId']}: {rows:,} rows in {seconds:.1f} s, {rate:,.0f} rows/s"


def rest_text(done: int, total: int, seconds: float) -> str:
    """What is left, and about how long it takes if all goes on as it went."""
    left = max(total - done, 0)
    if not left or not done:
        return f", {left:,} left" if left else ""
    return f", {left:,} left, about {left * seconds / done:,.0f} s"


class Clock:
    """How long a job has been running."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin
