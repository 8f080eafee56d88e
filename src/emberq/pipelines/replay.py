"""An archive back into topics."""

from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec import Meta

from emberq.pipelines.archived import read_archive
from emberq.pipelines.job import Job, Report, Say
from emberq.pipelines.pace import paced
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import Clock
from emberq.record.property_names import RESERVED
from emberq.spark.option_values import parse_time_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS_TOGETHER = "spark.sql.execution.arrow.maxRecordsPerBatch"
ORIGIN_PROPERTY = "EMBERQ_REPLAY_OF"


class Replay(Job, kw_only=True):
    """Send archived messages again, to their topic or another one.

    Messages of one queue go to one queue, in their order. Each carries where it comes from in
    the property `EMBERQ_REPLAY_OF`: topic, broker, queue and offset.
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
    catalog: Annotated[dict[str, str], Meta(description="Iceberg's catalog, KEY=VALUE")] = (
        msgspec.field(default_factory=dict)
    )

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        clock = Clock()
        with job_session(self.spark, spark) as session:
            chosen = self._chosen(session)
            count = chosen.count()
            say(f"{count:,} messages to send{self._duration(count)}")
            self._send(session, as_messages(chosen, has_own_topic=not self.to_topic))
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
        with job_session(self.spark, spark) as session:
            count = self._chosen(session).count()
        return Report(facts={"from": self.path, "to": self.to_topic or "own", "messages": count})

    def _send(self, session: "SparkSession", messages: "DataFrame") -> None:
        rows_together = session.conf.get(ROWS_TOGETHER)
        if self.rate:
            # Spark hands rows to the sink in large batches: with a rate, none lasts over a second.
            session.conf.set(ROWS_TOGETHER, str(min(int(rows_together or 0) or 10_000, self.rate)))
            messages = messages.coalesce(1).mapInArrow(paced(self.rate), messages.schema)
        try:
            (
                messages.write.format("rocketmq")
                .options(**self.sink_options(self.to_topic))
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
        if self.topics:
            names = [name.strip() for name in self.topics.split(",") if name.strip()]
            frame = frame.filter(f.col("topic").isin(names))
        if self.since:
            frame = frame.filter(_stored() >= _moment("since", self.since))
        if self.until:
            frame = frame.filter(_stored() < _moment("until", self.until))
        if self.where:
            frame = frame.filter(self.where)
        return frame.limit(self.limit) if self.limit else frame


def as_messages(frame: "DataFrame", *, has_own_topic: bool) -> "DataFrame":
    """Rows of an archive as columns of the sink, one task per queue, in order."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    origin = f.concat_ws(":", "topic", "brokerName", "queueId", "queueOffset")
    columns: dict[str, Column] = {
        name: f.col(name) for name in ("keys", "tags", "body") if name in frame.columns
    }
    own = f.map_from_arrays(f.array(f.lit(ORIGIN_PROPERTY)), f.array(origin))
    if "properties" in frame.columns:
        columns["properties"] = f.map_concat(
            f.map_filter(
                f.coalesce(f.col("properties"), f.expr("map()").cast("map<string,string>")),
                lambda name, _: (name != ORIGIN_PROPERTY) & ~name.isin(*sorted(RESERVED)),
            ),
            own,
        )
    else:
        columns["properties"] = own
    if has_own_topic:
        columns["topic"] = f.col("topic")
    columns["shardingKey"] = f.concat_ws("/", "brokerName", "queueId")
    order = [f.col("brokerName"), f.col("queueId"), f.col("queueOffset")]
    return (
        frame.repartition("topic", "brokerName", "queueId")
        .sortWithinPartitions("topic", *order)
        .select(*(column.alias(name) for name, column in columns.items()))
    )


def _stored() -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.col("storeTimestamp")


def _moment(name: str, text: str) -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.timestamp_millis(f.lit(parse_time_ms(name, text)))
