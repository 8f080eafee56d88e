"""How far consumer groups are behind."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.html_report import NOTE
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.session import job_session

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


class Lag(Job, kw_only=True):
    """Show committed offsets and lag of a group, queue by queue, or of all groups of topics.

    Where it has committed none, its lag is not known. A group without any offset in these topics,
    as one whose name is misspelt, is a failure: exit code 1.
    """

    name: ClassVar[str] = "lag"

    topics: Annotated[str, Meta(description="topics, separated by commas")]
    consumer_group: Annotated[
        str, Meta(description="the group; empty: all that have offsets in the topics")
    ] = ""

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        options = self.source_options(
            view="groups", subscribe=self.topics, consumerGroup=self.consumer_group
        )
        group = options.get("consumerGroup")
        with job_session(self.spark, spark) as session:
            say("asking the brokers")
            # A wrong address or topic is told here in a line, by a task in a hundred.
            backlog_of(session, self.source_options(subscribe=self.topics), None)
            rows = (
                session.read.format("rocketmq")
                .options(**options)
                .load()
                .orderBy("topic", "brokerName", "queueId")
                .collect()
            )
        return _of_group(group, rows) if group else _of_groups(rows)

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        return self.run(spark)


def _of_group(group: str, rows: "list[Row]") -> Report:
    known = [row["lag"] for row in rows if row["committedOffset"] is not None]
    facts = {
        "group": group,
        "queues": len(rows),
        "queues without offsets": len(rows) - len(known),
        "lag": sum(known) if known else None,
    }
    if not known:
        facts[NOTE] = "the group has no offsets here: is this its name?"
    columns = ["topic", "broker", "queue", "committed", "end", "lag"]
    names = ("topic", "brokerName", "queueId", "committedOffset", "maxOffset", "lag")
    queues = [[row[name] for name in names] for row in rows]
    return Report(
        facts=facts,
        is_good=bool(known),
        tables=[ReportTable(title="Queues", columns=columns, rows=queues)],
    )


def _of_groups(rows: "list[Row]") -> Report:
    """Of each group in each topic where it has offsets, those that are furthest behind first."""
    lags: dict[tuple[str, str], list[int | None]] = {}
    for row in rows:
        lags.setdefault((row["consumerGroup"], row["topic"]), []).append(row["lag"])
    found = [
        (sum(lag for lag in each if lag is not None), group, topic, len(each), each.count(None))
        for (group, topic), each in lags.items()
        if each.count(None) < len(each)
    ]
    found.sort(key=lambda row: (-row[0], row[1:]))
    columns = ["lag", "group", "topic", "queues", "queues without offsets"]
    return Report(
        facts={"groups": len({row[1] for row in found})},
        tables=[ReportTable(title="Groups", columns=columns, rows=[[*row] for row in found])],
    )
