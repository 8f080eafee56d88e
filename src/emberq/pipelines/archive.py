"""Topics into a table of Parquet files, each message once."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines.backlog import Backlog, backlog_of
from emberq.pipelines.checkpointed_table import (
    CheckpointedTable,
    check_table,
    note_table,
    table_of,
)
from emberq.pipelines.checkpoints import Checkpoint, checkpoint_at, forget_drafts, writer_of
from emberq.pipelines.connected import carried, committed_line, is_connected
from emberq.pipelines.file_values import names_of
from emberq.pipelines.job import LISTENER, Job, Report, Say
from emberq.pipelines.session import job_session
from emberq.pipelines.streaming import Clock, rest_text, run_query, trigger_options
from emberq.pipelines.tables import FORMATS, DataFile, Table, open_table
from emberq.spark.archive.addresses import absolute
from emberq.spark.archive.folder import is_object_store
from emberq.spark.columns import archived_columns
from emberq.spark.options import parse_source, parse_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Without these a file cannot be found again, and `verify` cannot compare.
REQUIRED_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp")
COLUMNS = (
    *REQUIRED_COLUMNS,
    *("keys", "tags", "body", "bornTimestamp", "properties", "msgId", "bodyCrc", "flag"),
)
# Early versions did not keep them: a table that takes no more columns goes on without.
_LATER_COLUMNS = frozenset({"flag"})


class Archive(Job, kw_only=True):
    """Archive topics as Parquet, Delta or Iceberg tables.

    Files are written where the messages are read, and a batch counts when the table's log says
    so: a batch that is repeated after a crash is in the table once.
    """

    name: ClassVar[str] = "archive"

    topics: Annotated[str, Meta(description="topics, separated by commas")]
    path: Annotated[str, Meta(description="the table: a folder, or an address such as s3://…")]
    format: Annotated[str, Meta(description="parquet, delta or iceberg")] = "parquet"
    partition_by: Annotated[
        str, Meta(description="of topic, brokerName, queueId, date, hour; UTC")
    ] = "topic,date"
    columns: Annotated[str, Meta(description="what files hold; empty: all that a replay needs")] = (
        ""
    )
    file_size: Annotated[str, Meta(description="about how large files become")] = "256m"
    compression: Annotated[str, Meta(description="zstd, snappy, gzip, lz4 or none")] = "zstd"
    every: Annotated[
        str, Meta(description="run on, a batch every so often: 30s; empty: all that is there")
    ] = ""
    checkpoint: Annotated[
        str, Meta(description="where Spark keeps the position; empty: in the table's folder")
    ] = ""
    consumer_group: Annotated[
        str, Meta(description="a group whose offsets show how far the archive is")
    ] = ""
    catalog: Annotated[dict[str, str], Meta(description="Iceberg's catalog, KEY=VALUE")] = (
        msgspec.field(default_factory=dict)
    )

    def __post_init__(self) -> None:
        # Here, once: tasks, and a server of Spark Connect, work in other folders.
        self.path = absolute(self.path)

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        self._check_options()
        with job_session(self.spark, spark) as session:
            checkpoint = self._checkpoint(session)
            target = self.target()
            backlog = self._backlog(session)
            # Now that nothing is refused any more: it makes a folder.
            writer = writer_of(self.checkpoint_path, session)
            note_table(checkpoint, self.checkpoint_path, self._checkpointed)
            return _Run(self, target, session, writer, say).run(backlog)

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        self._check_options()
        with job_session(self.spark, spark) as session:
            self._checkpoint(session)
            self.target()
            backlog = self._backlog(session, is_sized=True)
        return Report(
            facts={"table": f"{self.format} {self.path}", **backlog.facts()},
            tables=[backlog.table()],
        )

    def target(self) -> "Target":
        """The table, which need not exist yet, and what is written to it.

        Raises:
            ConfigError: that does not fit what is there.
            TableError: it cannot be opened.
        """
        columns = self.column_names
        table = self._table(columns)
        there = table.schema()
        if there is not None and not table.takes_columns and not names_of(self.columns):
            known = {*there.names, *set(COLUMNS) - _LATER_COLUMNS}
            columns = tuple(name for name in columns if name in known)
            table = self._table(columns)
        table.check()
        return Target(table, columns)

    def _table(self, columns: Sequence[str]) -> Table:
        from emberq.spark.decode.shape import arrow_schema  # noqa: PLC0415 - needs Arrow

        options = self.source_options(subscribe=self.topics, columns=",".join(columns))
        return open_table(
            self.format,
            self.path,
            arrow_schema(archived_columns(parse_source(options))),
            tuple(names_of(self.partition_by)),
            catalog=self.catalog,
        )

    def _check_options(self) -> None:
        """All that can be refused by the options alone. Raises ConfigError."""
        if self.format not in FORMATS:
            raise ConfigError(f"format={self.format!r}: expected one of {', '.join(FORMATS)}")
        archived_columns(
            parse_stream(self.stream_options("", self.column_names, keeps_partition_columns=False))
        )
        trigger_options(self.every)

    @property
    def checkpoint_path(self) -> str:
        if not self.checkpoint and is_object_store(self.path):
            raise ConfigError(
                "a table in an object store needs checkpoint: a folder that Spark reaches"
            )
        return self.checkpoint or f"{self.path.rstrip('/')}/_checkpoint"

    @property
    def _checkpointed(self) -> CheckpointedTable:
        return table_of(self.format, self.path, self.checkpoint_path, self.catalog)

    def _checkpoint(self, session: "SparkSession") -> Checkpoint:
        """Raises ConfigError: it cannot be reached, or is another table's."""
        checkpoint = checkpoint_at(self.checkpoint_path, session)
        check_table(checkpoint, self.checkpoint_path, self._checkpointed)
        return checkpoint

    def stream_options(
        self, writer: str, columns: Sequence[str] = (), *, keeps_partition_columns: bool
    ) -> dict[str, str]:
        return self.source_options(
            view="archive",
            subscribe=self.topics,
            consumerGroup=self.consumer_group,
            commitOffsets=LISTENER,
            startingOffsets="earliest",
            columns=",".join(columns or self.column_names),
            **{
                "archive.path": self.path,
                "archive.writer": writer,
                "archive.partitionBy": self.partition_by,
                "archive.fileSize": self.file_size,
                "archive.compression": self.compression,
                "archive.partitionColumns": "keep" if keeps_partition_columns else "drop",
            },
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        names = tuple(names_of(self.columns)) or COLUMNS
        return (*(name for name in REQUIRED_COLUMNS if name not in names), *names)

    def _backlog(self, session: "SparkSession", *, is_sized: bool = False) -> Backlog:
        source = self.source_options(subscribe=self.topics, startingOffsets="earliest")
        return backlog_of(session, source, self.checkpoint_path, is_sized=is_sized)


class Target(NamedTuple):
    """Where an archive writes, and which columns."""

    table: Table
    columns: tuple[str, ...]


class _Run:
    """One run of an archive: which writer it is, what it has committed."""

    def __init__(
        self, job: Archive, target: Target, session: "SparkSession", writer: str, say: Say
    ) -> None:
        self._job = job
        self._target = target
        self._session = session
        self._say = say
        self._clock = Clock()
        self._rows = self._files = self._bytes = self._batches = self._skipped = 0
        self._total = 0
        self._writer = writer

    def run(self, backlog: Backlog) -> Report:
        job, (table, columns) = self._job, self._target
        self._say(f"{backlog.rows:,} messages to archive in {backlog.queues} queues")
        self._total = backlog.rows
        frame = (
            self._session.readStream.format("rocketmq")
            .options(
                **job.stream_options(
                    self._writer,
                    columns,
                    keeps_partition_columns=table.keeps_partition_columns,
                )
            )
            .load()
        )
        writer = (
            frame.writeStream.option("checkpointLocation", job.checkpoint_path)
            .trigger(**trigger_options(job.every))
            .foreachBatch(self._committer())
        )
        tracker = job.tracker(job.consumer_group)
        is_elsewhere = is_connected(self._session)
        before = {each.path for each in table.files()} if is_elsewhere else set()
        forget_drafts(job.checkpoint_path, self._session)
        told = self._tell_elsewhere if is_elsewhere else lambda _: None
        run_query(writer, self._say, on_progress=told, tracker=tracker)
        if is_elsewhere:
            self._count_new(before)
        return self._report()

    def _committer(self) -> "Callable[[DataFrame, int], None]":
        """Batches are committed by whoever Spark calls: this process, or one of its server."""
        if is_connected(self._session):
            return carried(commits_of, self._job, self._writer)
        return self._commit

    def _tell_elsewhere(self, progress: Any) -> None:
        """Of a batch that a server took: it counts messages for itself."""
        self._say(committed_line(progress))

    def _count_new(self, before: set[str]) -> None:
        """What a server committed, by what the table says."""
        new = [each for each in self._job.target().table.files() if each.path not in before]
        self._rows, self._files = sum(each.rows for each in new), len(new)
        self._bytes = sum(each.size_bytes for each in new)

    def _commit(self, manifest: "DataFrame", batch: int) -> None:
        table = self._target.table
        last = table.last_batch(self._writer)
        if last is not None and last >= batch:
            self._skipped += 1
            self._say(f"batch {batch} is in the table already")
            return
        begin = self._clock.seconds
        files = [data_file(row) for row in manifest.collect()]
        if not files:
            return
        if len({each.path for each in files}) < len(files):
            raise PipelineError(f"batch {batch}: two files have one name")
        if not table.append(self._writer, batch, files):
            raise PipelineError(f"batch {batch} came from another run at the same time")
        rows = sum(each.rows for each in files)
        self._batches += 1
        self._rows += rows
        self._files += len(files)
        self._bytes += sum(each.size_bytes for each in files)
        self._say(self._line(batch, rows, len(files), self._clock.seconds - begin))

    def _line(self, batch: int, rows: int, files: int, seconds: float) -> str:
        rate = rows / seconds if seconds else 0.0
        rest = "" if self._job.every else rest_text(self._rows, self._total, self._clock.seconds)
        return f"batch {batch}: {rows:,} messages in {files} files, {rate:,.0f}/s{rest}"

    def _report(self) -> Report:
        seconds = self._clock.seconds
        return Report(
            facts={
                "table": f"{self._job.format} {self._job.path}",
                "messages": self._rows,
                "files": self._files,
                "bytes": self._bytes,
                "batches": self._batches,
                "batches that were there": self._skipped,
                "seconds": round(seconds, 1),
                "messages per second": round(self._rows / seconds) if seconds else 0,
            }
        )


def commits_of(job: Archive, writer: str) -> "Callable[[DataFrame, int], None]":
    """What commits the batches of a job in another process than the job's."""

    def commit(manifest: "DataFrame", batch: int) -> None:
        run = _Run(job, job.target(), manifest.sparkSession, writer, lambda _: None)
        run._commit(manifest, batch)

    return commit


def data_file(row: Any) -> DataFile:
    """A row of the view `archive`."""
    return DataFile(
        path=row["path"],
        rows=row["rows"],
        size_bytes=row["sizeBytes"],
        partition=dict(row["partition"]),
        topic=row["topic"],
        broker_name=row["brokerName"],
        queue_id=row["queueId"],
        first_offset=row["firstOffset"],
        next_offset=row["nextOffset"],
    )
