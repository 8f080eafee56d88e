"""How far consumer groups are behind."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from emberq.pipelines.backlog import backlog_of
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.session import job_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lag(Job, kw_only=True):
    """Show committed offsets and lag of a group, queue by queue.

    Where it has committed none, its lag is not known. A group without any offset in these topics,
    as one whose name is misspelt, is a failure: exit code 1.
    """

    name: ClassVar[str] = "lag"

    topics: Annotated[str, Meta(description="topics, separated by commas")]
    consumer_group: Annotated[str, Meta(description="the group")]

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        with job_session(self.spark, spark) as session:
            say("asking the brokers")
            # A wrong address or topic is told here in a line, by a task in a hundred.
            backlog_of(session, self.source_options(subscribe=self.topics), None)
            rows = (
                session.read.format("rocketmq")
                .options(
                    **self.source_options(
                        view="groups", subscribe=self.topics, consumerGroup=self.consumer_group
                    )
                )
                .load()
                .orderBy("topic", "brokerName", "queueId")
                .collect()
            )
        known = [row["lag"] for row in rows if row["committedOffset"] is not None]
        facts = {
            "group": self.consumer_group,
            "queues": len(rows),
            "queues without offsets": len(rows) - len(known),
            "lag": sum(known) if known else None,
        }
        if not known:
            facts["note"] = "the group has no offsets here: is this its name?"
        return Report(
            facts=facts,
            is_good=bool(known),
            tables=[
                ReportTable(
                    title="Queues",
                    columns=["topic", "broker", "queue", "committed", "end", "lag"],
                    rows=[
                        [
                            *(row["topic"], row["brokerName"], row["queueId"]),
                            *(row["committedOffset"], row["maxOffset"], row["lag"]),
                        ]
                        for row in rows
                    ],
                )
            ],
        )

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        return self.run(spark)
