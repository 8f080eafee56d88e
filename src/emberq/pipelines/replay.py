"""An archive back into topics."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec import Meta

from emberq.errors import ConfigError
from emberq.pipelines.archived import existing_table, read_archive
from emberq.pipelines.archived_sizes import archived_sizes
from emberq.pipelines.checked_options import check_sink
from emberq.pipelines.file_values import names_of
from emberq.pipelines.job import Job, Report, Say
from emberq.pipelines.kept_properties import kept_properties
from emberq.pipelines.pace import expect, paced
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import Clock
from emberq.pipelines.topic_look_up import check_target
from emberq.spark.option_values import parse_time_ms
from emberq.spark.sink_options import parse_sink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS_TOGETHER = "spark.sql.execution.arrow.maxRecordsPerBatch"
ORIGIN_PROPERTY = "EMBERQ_REPLAY_OF"
PLACE = ("topic", "brokerName", "queueId", "queueOffset")
# Times of the archived message in milliseconds, by the columns that have them.
TIME_PROPERTIES = {"bornTimestamp": "EMBERQ_BORN_AT", "storeTimestamp": "EMBERQ_STORED_AT"}


class Replay(Job, kw_only=True):
    """Send archived messages again, to their topic or another one.

    Messages of one queue go to one queue, in their order. Each carries where it comes from in
    the property `EMBERQ_REPLAY_OF`: topic, broker, queue and offset. Brokers stamp what they are
    sent with the new time; with `originalTimes` the old ones travel along in the properties
    `EMBERQ_BORN_AT` and `EMBERQ_STORED_AT`, in milliseconds.

    A replay that is repeated sends all messages again, unless brokers leave out what they have:
    with `sink: {delivery: idempotent}` each message of an archive comes to a topic once.
    """

    name: ClassVar[str] = "replay"

    path: Annotated[str, Meta(description="the table that `archive` wrote")]
    format: Annotated[str, Meta(description="parquet, delta or iceberg")] = "parquet"
    to_topic: Annotated[str, Meta(description="empty: each message to its own topic")] = ""
    topics: Annotated[str, Meta(description="only messages of these topics")] = ""
    since: Annotated[str, Meta(description="only messages stored from then on: ISO or ms")] = ""
    until: Annotated[str, Meta(description="only messages stored before then: ISO or ms")] = ""
    where: Annotated[str, Meta(description="only messages for which this SQL condition holds")] = ""
    limit: Annotated[int, Meta(description="at most so many; 0: all", ge=0)] = 0
    rate: Annotated[
        int, Meta(description="at most so many messages a second, by one task; 0: no limit", ge=0)
    ] = 0
    original_times: Annotated[
        bool, Meta(description="each message says when the archived one was born and stored")
    ] = False
    sink: Annotated[
        dict[str, str],
        Meta(description="further options of the Spark sink, KEY=VALUE: delivery=idempotent"),
    ] = msgspec.field(default_factory=dict)
    catalog: Annotated[dict[str, str], Meta(description="Iceberg's catalog, KEY=VALUE")] = (
        msgspec.field(default_factory=dict)
    )

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        parse_sink(self._sink_options())
        clock = Clock()
        with job_session(self.spark, spark) as session:
            chosen = self._chosen(session)
            messages = self._messages(chosen)
            check_target(session, self.sink_options(), self._sink_options())
            count = chosen.count()
            say(f"{count:,} messages to send{self._duration(count)}")
            if self.rate:  # its one task does not tell how far it is
                expect(say, count / self.rate)
            self._send(session, messages)
        seconds = clock.seconds
        return Report(
            facts={
                "to": self.to_topic or "the topics they came from",
                "messages": count,
                "seconds": round(seconds, 1),
                "messages per second": round(count / seconds) if seconds else 0,
            }
        )

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        parse_sink(self._sink_options())
        with job_session(self.spark, spark) as session:
            chosen = self._chosen(session)
            self._messages(chosen)
            check_target(session, self.sink_options(), self._sink_options())
            count = chosen.count()
            table = existing_table(self.format, self.path, self.catalog)
            sizes = archived_sizes(self.path, table.files(), names_of(self.topics))
        facts = {
            "from": self.path,
            "to": self.to_topic or "own",
            "messages": count,
            "files": sizes.files,
            "bytes of files": sizes.bytes,
        }
        if sizes.body_bytes is not None:
            facts["bytes of bodies, about"] = round(count * sizes.body_bytes)
        if self.rate:
            facts["seconds, at least"] = round(count / self.rate)
        return Report(facts=facts)

    def _sink_options(self) -> dict[str, str]:
        return self.sink_options(self.to_topic) | self.sink

    def _messages(self, chosen: "DataFrame") -> "DataFrame":
        """Raises ConfigError for what the sink would not take."""
        messages = as_messages(
            chosen, has_own_topic=not self.to_topic, has_times=self.original_times
        )
        check_sink(messages, self._sink_options())
        return messages

    def _send(self, session: "SparkSession", messages: "DataFrame") -> None:
        rows_together = session.conf.get(ROWS_TOGETHER)
        if self.rate:
            # Spark hands rows to the sink in large batches: with a rate, none lasts over a second.
            session.conf.set(ROWS_TOGETHER, str(min(int(rows_together or 0) or 10_000, self.rate)))
            messages = messages.coalesce(1).mapInArrow(paced(self.rate), messages.schema)
        try:
            (
                messages.write.format("rocketmq")
                .options(**self._sink_options())
                .mode("append")
                .save()
            )
        finally:
            session.conf.set(ROWS_TOGETHER, rows_together or "10000")

    def _duration(self, count: int) -> str:
        return f", in {count / self.rate:,.0f} s or more" if self.rate else ""

    def _chosen(self, session: "SparkSession") -> "DataFrame":
        from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

        frame = read_archive(session, self.format, self.path, self.catalog)
        if self.original_times:
            _check_times(frame.columns)
        if self.topics:
            frame = frame.filter(f.col("topic").isin(names_of(self.topics)))
        if self.since:
            frame = frame.filter(_stored() >= _moment("since", self.since))
        if self.until:
            frame = frame.filter(_stored() < _moment("until", self.until))
        if self.where:
            frame = frame.filter(self.where)
        return frame.limit(self.limit) if self.limit else frame


def _check_times(columns: Collection[str]) -> None:
    missing = [name for name in TIME_PROPERTIES if name not in columns]
    if missing:
        raise ConfigError(f"originalTimes: the archive has no column {' and '.join(missing)}")


def as_messages(frame: "DataFrame", *, has_own_topic: bool, has_times: bool = False) -> "DataFrame":
    """Rows of an archive as columns of the sink, one task per queue, in order."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    columns: dict[str, Column] = {
        name: f.col(name) for name in ("keys", "tags", "flag", "body") if name in frame.columns
    }
    said = {ORIGIN_PROPERTY: f.concat_ws(":", *PLACE)}
    if has_times:
        for column, name in TIME_PROPERTIES.items():
            said[name] = f.unix_millis(column).cast("string")
    own = f.map_from_arrays(f.array(*map(f.lit, said)), f.array(*said.values()))
    if "properties" in frame.columns:
        given = f.coalesce(f.col("properties"), f.expr("map()").cast("map<string,string>"))
        columns["properties"] = f.map_concat(kept_properties(given, *said), own)
    else:
        columns["properties"] = own
    if has_own_topic:
        columns["topic"] = f.col("topic")
    columns["shardingKey"] = f.concat_ws("/", "brokerName", "queueId")
    columns["id"] = message_id()
    order = [f.col("brokerName"), f.col("queueId"), f.col("queueOffset")]
    return (
        frame.repartition("topic", "brokerName", "queueId")
        .sortWithinPartitions("topic", *order)
        .select(*(column.alias(name) for name, column in columns.items()))
    )


def message_id() -> "Column":
    """What an archived message is known by, whenever it is sent: where it lay, and since a topic
    may be deleted and made anew, when it was stored there."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.concat_ws(":", *PLACE, f.unix_millis("storeTimestamp"))


def _stored() -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.col("storeTimestamp")


def _moment(name: str, text: str) -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.timestamp_millis(f.lit(parse_time_ms(name, text)))
