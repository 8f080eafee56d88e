"""Dead letters of a group: what they are, and back to their topics if wanted."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from emberq.errors import ConfigError
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import Clock
from emberq.record import property_names as names
from emberq.record.property_names import RESERVED
from emberq.spark.archive.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PREFIX = "%DLQ%"
COLUMNS = (
    "topic,brokerName,queueId,queueOffset,keys,tags,body,bornTimestamp,storeTimestamp,properties,"
    "uniqKey,reconsumeTimes"
)
REDRIVE_PROPERTY = "EMBERQ_REDRIVE_OF"


class DeadLetters(Job, kw_only=True):
    """Show the dead letters of consumer groups by topic, tag and time; send them back on demand.

    With `redrive` the chosen ones go to the topics they came from, each with its original id in
    the property `EMBERQ_REDRIVE_OF`. What was sent is written down in `ledger`, so that the next
    run does not send it again.
    """

    name: ClassVar[str] = "dlq"

    groups: Annotated[str, Meta(description="consumer groups, separated by commas")]
    since: Annotated[str, Meta(description="only those stored from then on: ISO or ms")] = ""
    until: Annotated[str, Meta(description="only those stored before then: ISO or ms")] = ""
    where: Annotated[str, Meta(description="only those for which this SQL condition holds")] = ""
    top: Annotated[int, Meta(description="how many keys are shown", ge=1)] = 20
    redrive: Annotated[bool, Meta(description="send them back to their topics")] = False
    to_topic: Annotated[str, Meta(description="send them to this topic instead")] = ""
    limit: Annotated[int, Meta(description="send at most so many; 0: all", ge=0)] = 0
    ledger: Annotated[str, Meta(description="a folder that remembers what was sent")] = ""

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        if self.redrive and not self.ledger:
            raise ConfigError("redrive needs ledger: a folder that remembers what was sent")
        clock = Clock()
        with job_session(self.spark, spark) as session:
            letters = self._letters(session).cache()
            try:
                say("counting")
                report = _analysis(letters, self.top)
                if self.redrive:
                    report.facts["sent back"] = self._redrive(session, letters, say)
            finally:
                letters.unpersist()
        report.facts["seconds"] = round(clock.seconds, 1)
        return report

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        with job_session(self.spark, spark) as session:
            letters = self._letters(session)
            waiting = self._not_sent(session, letters) if self.ledger else letters
            count = waiting.count()
        return Report(facts={"groups": self.groups, "would be sent back": count})

    def _letters(self, session: "SparkSession") -> "DataFrame":
        from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

        groups = [name.strip() for name in self.groups.split(",") if name.strip()]
        frame = (
            session.read.format("rocketmq")
            .options(
                **self.source_options(
                    subscribe=",".join(f"{PREFIX}{group}" for group in groups),
                    columns=COLUMNS,
                    startingTimestamp=self.since,
                    endingTimestamp=self.until,
                )
            )
            .load()
        )
        properties = f.col("properties")
        frame = frame.select(
            f.expr(f"substring(topic, {len(PREFIX) + 1})").alias("consumerGroup"),
            f.coalesce(
                properties[names.RETRY_TOPIC], properties[names.DEAD_LETTER_ORIGIN_TOPIC]
            ).alias("originTopic"),
            f.coalesce(
                properties[names.ORIGIN_MESSAGE_ID],
                properties[names.DEAD_LETTER_ORIGIN_MESSAGE_ID],
                f.col("uniqKey"),
            ).alias("originId"),
            "*",
        )
        return frame.filter(self.where) if self.where else frame

    def _not_sent(self, session: "SparkSession", letters: "DataFrame") -> "DataFrame":
        folder = Folder(self.ledger)
        files = [name for name in folder.names("") if name.endswith(".parquet")]
        if not files:
            return letters
        sent = session.read.parquet(*(folder.address_of(name) for name in files)).distinct()
        return letters.join(sent, _PLACE, "left_anti")

    def _redrive(self, session: "SparkSession", letters: "DataFrame", say: Say) -> int:
        from pyspark.sql import functions as f  # noqa: PLC0415

        waiting = self._not_sent(session, letters)
        if not self.to_topic:
            homeless = waiting.filter(f.col("originTopic").isNull()).count()
            if homeless:
                raise ConfigError(
                    f"{homeless} dead letters do not say which topic they came from: give toTopic"
                )
        chosen = waiting.orderBy(*_PLACE)
        chosen = (chosen.limit(self.limit) if self.limit else chosen).cache()
        try:
            count = chosen.count()
            if not count:
                return 0
            say(f"sending {count:,} messages back")
            (
                _as_messages(chosen, self.to_topic)
                .write.format("rocketmq")
                .options(**self.sink_options())
                .mode("append")
                .save()
            )
            chosen.select(*_PLACE).coalesce(1).write.mode("append").parquet(self.ledger)
        finally:
            chosen.unpersist()
        return int(count)


_PLACE = ["topic", "brokerName", "queueId", "queueOffset"]


def _as_messages(letters: "DataFrame", to_topic: str) -> "DataFrame":
    from pyspark.sql import functions as f  # noqa: PLC0415

    topic: Column = f.lit(to_topic) if to_topic else f.col("originTopic")
    own = f.map_from_arrays(f.array(f.lit(REDRIVE_PROPERTY)), f.array(f.col("originId")))
    kept = f.map_filter(
        f.col("properties"),
        lambda name, _: (name != REDRIVE_PROPERTY) & ~name.isin(*sorted(RESERVED)),
    )
    return letters.select(
        topic.alias("topic"), "keys", "tags", "body", f.map_concat(kept, own).alias("properties")
    )


def _analysis(letters: "DataFrame", top: int) -> Report:
    from pyspark.sql import functions as f  # noqa: PLC0415

    total = letters.count()
    return Report(
        facts={"dead letters": total},
        tables=[
            _table(
                "By group, topic and tag",
                letters.groupBy("consumerGroup", "originTopic", "tags")
                .agg(
                    f.count(f.lit(1)).alias("messages"),
                    f.max("reconsumeTimes").alias("attempts"),
                    f.min("storeTimestamp").alias("first"),
                    f.max("storeTimestamp").alias("last"),
                )
                .orderBy(f.desc("messages"), "consumerGroup"),
            ),
            _table(
                "By hour",
                letters.groupBy(f.date_trunc("hour", "storeTimestamp").alias("hour"))
                .agg(f.count(f.lit(1)).alias("messages"))
                .orderBy("hour"),
            ),
            _table(
                "Most frequent keys",
                letters.groupBy("keys")
                .agg(f.count(f.lit(1)).alias("messages"))
                .orderBy(f.desc("messages"), "keys")
                .limit(top),
            ),
        ],
    )


def _table(title: str, frame: "DataFrame") -> ReportTable:
    rows: list[list[Any]] = [list(row) for row in frame.collect()]
    return ReportTable(title=title, columns=list(frame.columns), rows=rows)
