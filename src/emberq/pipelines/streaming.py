"""Running a streaming query to its end, and saying how far it is."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from emberq.errors import ConfigError
from emberq.pipelines.job import Say
from emberq.spark.archive.folder import Folder, is_local, local_path
from emberq.spark.option_values import OptionTexts

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from emberq.spark.tracking import OffsetTracker

POLL_S = 1
_OFFSETS = "offsets"
_COMMITS = "commits"


def trigger_options(every: str) -> dict[str, Any]:
    """All that is there and then stop, or every so often."""
    if not every:
        return {"availableNow": True}
    seconds = OptionTexts({"every": every}, ["every"]).seconds("every", 0)
    if seconds <= 0:
        raise ConfigError(f"every={every!r}: expected a duration such as 30s")
    return {"processingTime": f"{int(seconds * 1000)} milliseconds"}


def seconds_of(name: str, text: str) -> float:
    """An option such as `1m`. Raises ConfigError."""
    seconds = OptionTexts({name: text}, [name]).seconds(name, 0)
    if seconds <= 0:
        raise ConfigError(f"{name}={text!r}: expected a duration such as 1m")
    return seconds


def spark_duration(name: str, text: str) -> str:
    """An option such as `1m` in Spark's words. Raises ConfigError."""
    return f"{int(seconds_of(name, text) * 1000)} milliseconds"


def run_query(
    writer: "DataStreamWriter",
    say: Say,
    *,
    on_progress: Callable[[Any], None] | None = None,
    tracker: "OffsetTracker | None" = None,
) -> None:
    """Start a query and wait for its end; Ctrl-C stops it."""
    query = writer.start()
    told = -1
    try:
        while not query.awaitTermination(POLL_S):
            told = _tell(query, told, say, on_progress, tracker)
    except KeyboardInterrupt:
        say("stopping")
        query.stop()
    _tell(query, told, say, on_progress, tracker)


def _tell(
    query: "StreamingQuery",
    told: int,
    say: Say,
    on_progress: Callable[[Any], None] | None,
    tracker: "OffsetTracker | None",
) -> int:
    for progress in query.recentProgress:
        batch = progress["batchId"]
        if batch <= told or not progress["numInputRows"]:
            continue
        told = batch
        if tracker is not None:
            tracker.take(progress)
        if on_progress is not None:
            on_progress(progress)
        else:
            say(progress_line(progress))
    return told


def progress_line(progress: Any) -> str:
    """One line per batch: how much, how fast."""
    rows = progress["numInputRows"]
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    rate = rows / seconds if seconds else 0.0
    return f"batch {progress['batchId']}: {rows:,} rows in {seconds:.1f} s, {rate:,.0f} rows/s"


def forget_drafts(checkpoint: str) -> None:
    """Be able to start after a driver that was killed while it planned its very first batch.

    It leaves drafts of files in its checkpoint and no batch, and Spark takes such a checkpoint for
    another query's. Once a batch is planned, nothing is touched.
    """
    folder = Folder(checkpoint)
    left = [name for part in (_OFFSETS, _COMMITS) for name in folder.names(part)]
    if all(Path(name).name.startswith(".") for name in left):
        for name in left:
            folder.delete(name)


def done_offsets(checkpoint: str) -> dict[str, Any] | None:
    """Where a query will go on: the offsets of its last finished batch, if it can be seen."""
    if not is_local(checkpoint):
        return None
    folder = local_path(checkpoint)
    finished = _newest(folder / _COMMITS)
    if finished is None:
        return None
    lines = (folder / _OFFSETS / str(finished)).read_text().splitlines()
    return msgspec.json.decode(lines[-1], type=dict[str, Any])


def _newest(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)


class Clock:
    """How long a job has been running."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin
