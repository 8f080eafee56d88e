"""Topics through SQL or a function into a topic."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines.backlog import Backlog, backlog_of
from emberq.pipelines.checked_options import check_stream, check_stream_sink
from emberq.pipelines.checkpoints import forget_drafts
from emberq.pipelines.file_values import names_of
from emberq.pipelines.job import LISTENER, Job, Report, Say
from emberq.pipelines.kept_properties import kept_properties
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import (
    Clock,
    progress_line,
    rest_text,
    run_query,
    trigger_options,
)
from emberq.pipelines.topic_look_up import check_target
from emberq.pipelines.topic_positions import options_of_topic
from emberq.spark.columns import MAP
from emberq.spark.sink_options import parse_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BODY_BYTES = "bodyBytes"
_NO_BODY = "has no body"

Function = Callable[["SparkSession", dict[str, "DataFrame"]], "DataFrame"]


class Transform(Job, kw_only=True):
    """Transform messages of topics by SQL, or by a function, into messages of a topic.

    In SQL every topic is a table of its name, with the columns of the source. `body` is text, null
    where it is not UTF-8; `bodyBytes` has it as it is. What the query selects are the columns of
    the sink: `body`, and where wanted `topic`, `keys`, `tags`, `properties`, `shardingKey` and
    others. Properties that clients and brokers give a meaning are not passed on.
    """

    name: ClassVar[str] = "transform"

    topics: Annotated[str, Meta(description="topics, separated by commas")]
    sql: Annotated[str, Meta(description="a SELECT, or a file that ends with .sql")] = ""
    function: Annotated[
        str, Meta(description="module:function, given the session and a frame per topic")
    ] = ""
    to_topic: Annotated[
        str, Meta(description="where messages go that the query names no topic for")
    ] = ""
    sink: Annotated[
        dict[str, str],
        Meta(description="further options of the Spark sink, KEY=VALUE: delivery=transactional"),
    ] = msgspec.field(default_factory=dict)
    checkpoint: Annotated[str, Meta(description="where Spark keeps the position")]
    every: Annotated[
        str, Meta(description="run on, a batch every so often: 5s; empty: all that is there")
    ] = ""
    starting_offsets: Annotated[str, Meta(description="earliest, latest, group or JSON")] = (
        "earliest"
    )
    consumer_group: Annotated[str, Meta(description="a group whose offsets show the progress")] = ""

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        trigger = self._checked_trigger()
        clock = Clock()
        rows = total = 0

        def count(progress: Any) -> None:
            nonlocal rows
            rows += progress.numInputRows
            rest = "" if self.every else rest_text(rows, total, clock.seconds)
            say(f"{progress_line(progress)}{rest}")

        with _body_explained(), job_session(self.spark, spark) as session:
            result = self._result(session)
            total = self._backlog(session).rows
            writer = (
                result.writeStream.format("rocketmq")
                .options(**self._sink_options())
                .option("checkpointLocation", self.checkpoint)
                .trigger(**trigger)
            )
            tracker = self.tracker(self.consumer_group)
            forget_drafts(self.checkpoint, session)
            run_query(writer, say, on_progress=count, tracker=tracker)
        return Report(
            facts={
                "to": self.to_topic or "the topics that the query names",
                "messages read": rows,
                "seconds": round(clock.seconds, 1),
            }
        )

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        self._checked_trigger()
        with job_session(self.spark, spark) as session:
            check_target(session, self.sink_options(), self._sink_options())
            columns = ", ".join(self._result(session).columns)
            backlog = self._backlog(session, is_sized=True)
        return Report(
            facts={"to": self.to_topic, "columns": columns, **backlog.facts()},
            tables=[backlog.table()],
        )

    def _checked_trigger(self) -> dict[str, Any]:
        """Raises ConfigError for what cannot be done, before Spark is started."""
        if not names_of(self.topics):
            raise ConfigError("topics names no topic")
        if bool(self.sql) == bool(self.function):
            raise ConfigError("transform needs sql or function, one of them")
        if self.sql:
            self._query()
        parse_sink(self._sink_options())
        return trigger_options(self.every)

    def _sink_options(self) -> dict[str, str]:
        return self.sink_options(self.to_topic) | self.sink

    def _backlog(self, session: "SparkSession", *, is_sized: bool = False) -> Backlog:
        """Of the queries of all topics, each with a start of its own."""
        first, *others = [
            backlog_of(session, self._source(topic), self.checkpoint, is_sized=is_sized)
            for topic in names_of(self.topics)
        ]
        by_queue = [each for part in (first, *others) for each in part.by_queue]
        return replace(first, by_queue=by_queue)

    def _result(self, session: "SparkSession") -> "DataFrame":
        """What is written. Raises ConfigError, PipelineError if that cannot be."""
        frames = {topic: self._frame(session, topic) for topic in names_of(self.topics)}
        if self.function:
            result = load_function(self.function)(session, frames)
        else:
            for topic, frame in frames.items():
                frame.createOrReplaceTempView(f"`{topic}`")
            result = session.sql(self._query())
        if not result.isStreaming:
            raise PipelineError("the result does not come from the topics")
        result = sendable(result)
        check_stream_sink(result, self._sink_options())
        return result

    def _frame(self, session: "SparkSession", topic: str) -> "DataFrame":
        options = self._source(topic)
        is_text = options.get("bodyAs", "string").lower() == "string"
        if is_text:
            options["bodyAs"] = "binary"
        check_stream(options)
        frame = session.readStream.format("rocketmq").options(**options).load()
        return with_both_bodies(frame, is_text=is_text)

    def _source(self, topic: str) -> dict[str, str]:
        options = self.source_options(
            startingOffsets=self.starting_offsets,
            consumerGroup=self.consumer_group,
            commitOffsets=LISTENER,
        )
        return options_of_topic(options, topic, names_of(self.topics))

    def _query(self) -> str:
        text = read_query(Path(self.sql)) if self.sql.endswith(".sql") else self.sql
        return text.strip().rstrip(";")


def read_query(path: Path) -> str:
    """Raises ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no UTF-8 text: {error}") from error


def with_both_bodies(frame: "DataFrame", *, is_text: bool = True) -> "DataFrame":
    """`bodyBytes` as it is, and `body` as text, null where it is not UTF-8."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    if "body" not in frame.columns:
        return frame
    text = f.try_validate_utf8(f.col("body").cast("string")) if is_text else f.col("body")
    return frame.withColumns({"body": text, BODY_BYTES: f.col("body")})


def sendable(result: "DataFrame") -> "DataFrame":
    """What a query made, without properties that no client takes."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    if ("properties", MAP) not in result.dtypes:
        return result  # none, or none that the sink takes: it says so
    return result.withColumn("properties", kept_properties(f.col("properties")))


@contextmanager
def _body_explained() -> Iterator[None]:
    """What a row without a body is about, where the sink says nothing but that."""
    try:
        yield
    except PipelineError as error:
        if not str(error).endswith(_NO_BODY):
            raise
        raise PipelineError(
            f"{error}: as text a body is null where it is not UTF-8; select {BODY_BYTES} AS body, "
            "or leave such rows out with WHERE body IS NOT NULL"
        ) from error


def load_function(name: str) -> Function:
    """A function of a module on the path. Raises ConfigError."""
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(f"{name!r}: expected module:function")
    try:
        function = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{name!r} cannot be loaded: {error}") from error
    if not callable(function):
        raise ConfigError(f"{name!r} is no function")
    return function  # type: ignore[no-any-return] # checked to be callable
