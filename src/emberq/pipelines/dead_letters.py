"""Dead letters of a group: what they are, and back to their topics if wanted."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from emberq.errors import ConfigError
from emberq.model.system_topics import DEAD_LETTER_PREFIX, dead_letter_topic
from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.connected import is_connected
from emberq.pipelines.file_values import names_of
from emberq.pipelines.html_report import NOTE
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.redrive import Redrive, letter_id, planned_redrive, send_back
from emberq.pipelines.redrive_ledger import PLACE, RedriveLedger, ledger_at
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import Clock
from emberq.pipelines.times import collect_utc
from emberq.pipelines.topic_look_up import look_up_topics
from emberq.record import property_names as names
from emberq.spark.columns import ddl, find_column
from emberq.spark.options import SourceOptions, parse_source
from emberq.spark.places import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "topic,brokerName,queueId,queueOffset,keys,tags,body,bornTimestamp,storeTimestamp,properties,"
    "uniqKey,reconsumeTimes,size,flag"
)


class DeadLetters(Job, kw_only=True):
    """Show the dead letters of consumer groups by topic, tag, attempts and time; send them back on
    demand.

    Attempts are the deliveries that failed (`reconsumeTimes` of the letter). Letters do not say
    why they are dead: those with one more than the group has retries, 16 unless it is told
    otherwise, used them up; those with fewer were given up by their consumer.

    With `redrive` the chosen ones go to the topics they came from, each with its original id in
    the property `EMBERQ_REDRIVE_OF`. What was sent is written down in `ledger`, so that the next
    run does not send it again. Brokers of EmberQ leave out a letter that its topic has; to others
    letters go in pieces of 1,000, of which the run behind a failure repeats one at most. Letters
    whose topic is not there are left, and end the job with exit code 1.
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
        groups = self._checked_groups()
        clock = Clock()
        with job_session(self.spark, spark) as session:
            topics = self._topics(session, groups)
            letters = self._letters(session, topics).cache()
            try:
                say("counting")
                report = _analysis(letters, groups, self.top)
                if self.redrive:
                    with self._redrive(session, letters, topics) as (redrive, ledger):
                        _add_redrive(report, redrive)
                        options = self.sink_options()
                        report.facts["sent back"] = send_back(
                            session, letters, redrive, ledger, options, say
                        )
            finally:
                letters.unpersist()
        report.facts["seconds"] = round(clock.seconds, 1)
        return report

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        groups = self._checked_groups()
        report = Report(facts={"groups": self.groups})
        with job_session(self.spark, spark) as session:
            topics = self._topics(session, groups)
            letters = self._letters(session, topics)
            if self.redrive:
                with self._redrive(session, letters, topics) as (redrive, _):
                    _add_plan(report, redrive)
            elif topics:
                backlog = backlog_of(session, self._source(topics), None, is_sized=True)
                report.facts |= backlog.facts()
                report.tables.append(backlog.table())
            else:
                report.facts["messages"] = 0
        return report

    def _checked_groups(self) -> list[str]:
        if self.redrive and not self.ledger:
            raise ConfigError("redrive needs ledger: a folder that remembers what was sent")
        groups = names_of(self.groups)
        if not groups:
            raise ConfigError("groups names no group")
        return groups

    def _topics(self, session: "SparkSession", groups: Sequence[str]) -> list[str]:
        """Those that are there: a broker makes the topic with the first dead letter."""
        wanted = [dead_letter_topic(group) for group in groups]
        options = parse_source(self._source(wanted))
        found: Collection[str] = wanted
        if options.store is None:
            found = look_up_topics(session, self.sink_options(), wanted)
        elif not is_connected(session):  # else the directory is on the server's machine
            found = _stored_topics(options, wanted)
        return [topic for topic in wanted if topic in found]

    def _source(self, topics: Sequence[str], **more: str) -> dict[str, str]:
        return self.source_options(
            subscribe=",".join(topics),
            startingTimestamp=self.since,
            endingTimestamp=self.until,
            **more,
        )

    def _letters(self, session: "SparkSession", topics: Sequence[str]) -> "DataFrame":
        from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

        if topics:
            options = self._source(topics, columns=COLUMNS)
            frame = session.read.format("rocketmq").options(**options).load()
        else:
            columns = [find_column("messages", name) for name in COLUMNS.split(",")]
            frame = session.createDataFrame([], ddl(columns))
        properties = f.col("properties")
        frame = frame.select(
            f.expr(f"substring(topic, {len(DEAD_LETTER_PREFIX) + 1})").alias("consumerGroup"),
            f.coalesce(
                properties[names.RETRY_TOPIC], properties[names.DEAD_LETTER_ORIGIN_TOPIC]
            ).alias("originTopic"),
            f.coalesce(
                properties[names.ORIGIN_MESSAGE_ID],
                properties[names.DEAD_LETTER_ORIGIN_MESSAGE_ID],
                f.col("uniqKey"),
            ).alias("originId"),
            letter_id().alias("id"),
            "*",
        )
        return frame.filter(self.where) if self.where else frame

    @contextmanager
    def _redrive(
        self, session: "SparkSession", letters: "DataFrame", topics: Sequence[str]
    ) -> Iterator[tuple[Redrive, RedriveLedger]]:
        """What a run sends and a plan tells."""
        ledger = ledger_at(self.ledger, session)
        with planned_redrive(
            session,
            letters,
            ledger,
            self.sink_options(),
            topics=topics,
            to_topic=self.to_topic,
            limit=self.limit,
        ) as redrive:
            yield redrive, ledger


def _stored_topics(options: SourceOptions, names: Sequence[str]) -> set[str]:
    """Those of the topics that a store directory has."""
    any_of_them = replace(options, topics=(), pattern="|".join(map(re.escape, names)))
    return {queue.topic for queue in place_of(any_of_them).queues()}


def _add_redrive(report: Report, redrive: Redrive) -> None:
    report.facts |= redrive.facts()
    report.tables += redrive.tables()
    report.is_good = not redrive.homeless


def _add_plan(report: Report, redrive: Redrive) -> None:
    from pyspark.sql import functions as f  # noqa: PLC0415

    queue = PLACE[:-1]
    rows = [
        list(row)
        for row in redrive.chosen()
        .groupBy(*queue)
        .agg(
            f.min("queueOffset"),
            f.max("queueOffset") + 1,
            f.count(f.lit(1)),
            f.sum("size"),
        )
        .orderBy(*queue)
        .collect()
    ]
    report.facts["would be sent back"] = sum(row[-2] for row in rows)
    report.facts["bytes"] = sum(row[-1] for row in rows)
    columns = ["topic", "broker", "queue", "from", "to", "messages", "bytes"]
    report.tables.append(ReportTable(title="Queues", columns=columns, rows=rows))
    _add_redrive(report, redrive)


def _analysis(letters: "DataFrame", groups: Sequence[str], top: int) -> Report:
    from pyspark.sql import functions as f  # noqa: PLC0415

    count = f.count(f.lit(1)).alias("messages")
    by_topic = _table(
        "By group, topic and tag",
        letters.groupBy("consumerGroup", "originTopic", "tags")
        .agg(
            count,
            f.max("reconsumeTimes").alias("attempts"),
            f.min("storeTimestamp").alias("first"),
            f.max("storeTimestamp").alias("last"),
        )
        .orderBy(f.desc("messages"), "consumerGroup"),
    )
    total = sum(row[3] for row in by_topic.rows)
    lucky = sorted(set(groups) - {row[0] for row in by_topic.rows})
    by_topic.rows += [[group, None, None, 0, None, None, None] for group in lucky]
    attempts = ("consumerGroup", "originTopic", f.col("reconsumeTimes").alias("attempts"))
    day, hour = (f.date_trunc(unit, "storeTimestamp").alias(unit) for unit in ("day", "hour"))
    facts: dict[str, Any] = {"dead letters": total}
    if lucky:
        facts[NOTE] = (
            f"No dead letters of {', '.join(lucky)}: no message failed for good, or no group has "
            "this name."
        )
    return Report(
        facts=facts,
        tables=[
            by_topic,
            _table(
                "By group, topic and attempts",
                letters.groupBy(*attempts)
                .agg(count)
                .orderBy("consumerGroup", "originTopic", "attempts"),
            ),
            _table(
                "By day and group",
                letters.groupBy(day, "consumerGroup").agg(count).orderBy("day", "consumerGroup"),
            ),
            _table("By hour", letters.groupBy(hour).agg(count).orderBy("hour")),
            _table(
                "Most frequent keys",
                letters.groupBy("keys").agg(count).orderBy(f.desc("messages"), "keys").limit(top),
            ),
        ],
    )


def _table(title: str, frame: "DataFrame") -> ReportTable:
    rows: list[list[Any]] = [list(row) for row in collect_utc(frame)]
    return ReportTable(title=title, columns=list(frame.columns), rows=rows)
