"""The two systems: each reads its topic as a batch and as a stream, and archives it."""

from pathlib import Path
from typing import Any, Protocol

from benchmarks.process_facts import cpu_time
from emberq.pipelines.archive import Archive

COMPRESSION = "snappy"  # of both archives; Spark's own default
# Of Kafka's consumers: larger fetches and polls than by default, as a bulk reader wants them.
CONSUMER = {"kafka.max.partition.fetch.bytes": str(8 << 20), "kafka.max.poll.records": "10000"}
FILL_TIMEOUT_MS = 600_000  # a busy machine takes longer than the two minutes of producers
SUMS = (
    "count(*)",
    "sum(crc32(value))",
    "sum(crc32(key))",
    "sum(size(headers))",
    "sum(aggregate(headers, 0L, (sum, each) -> sum + crc32(each.value)))",
)
# What the connector of Kafka calls a row, made of ours.
AS_KAFKA_ROW = (
    "cast(keys as binary) as key",
    "body as value",
    "queueId as partition",
    "transform(map_entries(properties), each -> "
    "struct(each.key as key, cast(each.value as binary) as value)) as headers",
)


class Side(Protocol):
    """A system under measurement: what it is asked, and what its broker has used."""

    name: str

    def batch(self, topic: str) -> Any: ...

    def stream(self, topic: str) -> Any: ...

    def archive(self, topic: str, folder: Path) -> None:
        """All of a topic into a new Parquet table, with what a second run needs to go on."""

    def archived(self, folder: Path) -> Any: ...

    def sums(self, topic: str) -> list[int]:
        """The same for the same messages."""

    def broker_cpu_s(self) -> float: ...


class EmberqSide:
    name = "emberq"

    def __init__(self, spark: Any, address: str, broker_pid: int) -> None:
        self._spark = spark
        self._address = address
        self._broker_pid = broker_pid

    def batch(self, topic: str) -> Any:
        return self._spark.read.format("rocketmq").option("nameServer", self._address).load(topic)

    def stream(self, topic: str) -> Any:
        options = {"nameServer": self._address, "startingOffsets": "earliest"}
        return self._spark.readStream.format("rocketmq").options(**options).load(topic)

    def archive(self, topic: str, folder: Path) -> None:
        job = Archive(
            topics=topic, path=str(folder), name_server=self._address, compression=COMPRESSION
        )
        job.run(self._spark)

    def archived(self, folder: Path) -> Any:
        return self._spark.read.parquet(str(folder))

    def sums(self, topic: str) -> list[int]:
        return list(self.batch(topic).selectExpr(*AS_KAFKA_ROW).selectExpr(*SUMS).first())

    def broker_cpu_s(self) -> float:
        return cpu_time(self._broker_pid).total_s


class KafkaSide:
    name = "kafka"

    def __init__(self, spark: Any, address: str, broker_pid: int) -> None:
        self._spark = spark
        self._address = address
        self._broker_pid = broker_pid

    def fill(self, rows: Any, topic: str) -> None:
        """The rows of the other side, into the partitions that have the numbers of its queues."""
        writer = rows.selectExpr(*AS_KAFKA_ROW).write.format("kafka")
        writer.option("kafka.bootstrap.servers", self._address).option("topic", topic).option(
            "kafka.delivery.timeout.ms", str(FILL_TIMEOUT_MS)
        ).save()

    def batch(self, topic: str) -> Any:
        return self._options(self._spark.read, topic).load()

    def stream(self, topic: str) -> Any:
        return self._options(self._spark.readStream, topic).load()

    def _options(self, reader: Any, topic: str) -> Any:
        return (
            reader.format("kafka")
            .option("kafka.bootstrap.servers", self._address)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .options(**CONSUMER)
        )

    def archive(self, topic: str, folder: Path) -> None:
        query = (
            self.stream(topic)
            .writeStream.format("parquet")
            .option("compression", COMPRESSION)
            .option("checkpointLocation", str(folder / "_checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder))
        )
        query.awaitTermination()

    def archived(self, folder: Path) -> Any:
        return self._spark.read.parquet(str(folder))

    def sums(self, topic: str) -> list[int]:
        return list(self.batch(topic).selectExpr(*SUMS).first())

    def broker_cpu_s(self) -> float:
        return cpu_time(self._broker_pid).total_s
