"""How far consumer groups are behind."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.session import job_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lag(Job, kw_only=True):
    """Show committed offsets and lag of a group, queue by queue."""

    name: ClassVar[str] = "lag"

    topics: Annotated[str, Meta(description="topics, separated by commas")]
    consumer_group: Annotated[str, Meta(description="the group")]

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        with job_session(self.spark, spark) as session:
            say("asking the brokers")
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
        return Report(
            facts={
                "group": self.consumer_group,
                "queues": len(rows),
                "lag": sum(row["lag"] or 0 for row in rows),
            },
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
