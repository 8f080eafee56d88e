"""Small files of an archive into larger ones, old partitions away, leftovers away."""

import time
import uuid
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines.archived import existing_table
from emberq.pipelines.job import Job, Report, Say
from emberq.pipelines.streaming import Clock
from emberq.pipelines.tables import DataFile
from emberq.pipelines.tables.parquet import ParquetTable
from emberq.spark.option_values import OptionTexts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A file of this share of the wanted size is large enough to be left alone.
LARGE_ENOUGH = 0.75
_ROW_GROUP_BYTES = 64 * 1024 * 1024


class Compact(Job, kw_only=True):
    """Join small files, drop old days, delete files that no log names.

    Safe beside a running archive: files are exchanged in one commit of the table, and files
    younger than `orphansAfter` are never deleted.
    """

    name: ClassVar[str] = "compact"

    path: Annotated[str, Meta(description="the table that `archive` wrote")]
    format: Annotated[str, Meta(description="parquet or delta")] = "parquet"
    file_size: Annotated[str, Meta(description="about how large files become")] = "256m"
    keep: Annotated[str, Meta(description="drop days older than this: 30d; empty: none")] = ""
    orphans_after: Annotated[
        str, Meta(description="delete files that no log names when they are older than this")
    ] = "24h"
    compression: Annotated[str, Meta(description="zstd, snappy, gzip, lz4 or none")] = "zstd"

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        clock = Clock()
        if self.format == "parquet":
            facts = _ParquetCompaction(self, say).run()
        elif self.format == "delta":
            facts = self._delta(say)
        else:
            raise ConfigError(f"compact works on parquet and delta tables, not on {self.format}")
        return Report(facts={**facts, "seconds": round(clock.seconds, 1)})

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        files = existing_table(self.format, self.path).files()
        wanted = self.size_option("fileSize", self.file_size)
        small = [each for each in files if each.size_bytes < wanted * LARGE_ENOUGH]
        return Report(
            facts={
                "table": self.path,
                "files": len(files),
                "bytes": sum(each.size_bytes for each in files),
                "small files": len(small),
            }
        )

    def seconds(self, name: str, text: str) -> float:
        return OptionTexts({name: text}, [name]).seconds(name, 0)

    def _delta(self, say: Say) -> dict[str, Any]:
        from emberq.pipelines.tables.delta import DeltaLakeTable  # noqa: PLC0415 - an extra

        if self.keep:
            raise ConfigError("keep works on parquet tables; delete from a Delta table with SQL")
        table = DeltaLakeTable(self.path, pa.schema([]), ())
        say("joining files")
        fewer = table.compact(self.size_option("fileSize", self.file_size))
        deleted = table.vacuum(int(self.seconds("orphansAfter", self.orphans_after) // 3600))
        return {"files fewer": fewer, "files deleted": len(deleted)}


class _ParquetCompaction:
    def __init__(self, job: Compact, say: Say) -> None:
        self._job = job
        self._say = say
        self._table = ParquetTable(job.path)
        self._wanted = job.size_option("fileSize", job.file_size)

    def run(self) -> dict[str, Any]:
        before = self._table.files()
        if not before:
            raise PipelineError(f"there is no parquet table with files at {self._job.path}")
        dropped = self._drop_old(before)
        joined = sum(self._join(group) for group in self._groups())
        deleted = self._delete_orphans()
        return {
            "files before": len(before),
            "files after": len(self._table.files()),
            "files joined": joined,
            "files of dropped days": dropped,
            "files deleted": deleted,
        }

    def _drop_old(self, files: list[DataFile]) -> int:
        if not self._job.keep:
            return 0
        kept_s = self._job.seconds("keep", self._job.keep)
        oldest = (datetime.now(UTC) - timedelta(seconds=kept_s)).date()
        if not any("date" in each.partition for each in files):
            raise ConfigError("keep needs a table that is partitioned by date")
        old = [
            each.path
            for each in files
            if "date" in each.partition and date.fromisoformat(each.partition["date"]) < oldest
        ]
        if old:
            self._table.replace(old, [])
        return len(old)

    def _groups(self) -> list[list[DataFile]]:
        """Small files of one partition, put together until they are large enough."""
        small: dict[tuple[tuple[str, str], ...], list[DataFile]] = defaultdict(list)
        for each in self._table.files():
            if each.size_bytes < self._wanted * LARGE_ENOUGH:
                small[tuple(each.partition.items())].append(each)
        groups: list[list[DataFile]] = []
        for files in small.values():
            files.sort(key=lambda each: (each.broker_name, each.queue_id, each.first_offset))
            group: list[DataFile] = []
            size = 0
            for each in files:
                if group and size + each.size_bytes > self._wanted:
                    groups.append(group)
                    group, size = [], 0
                group.append(each)
                size += each.size_bytes
            groups.append(group)
        return [group for group in groups if len(group) > 1]

    def _join(self, group: list[DataFile]) -> int:
        folder = self._table.folder
        place = group[0].path.rsplit("/", 1)[0] if "/" in group[0].path else ""
        name = f"{place}/joined-{uuid.uuid4().hex}.parquet".lstrip("/")
        rows = 0
        writer: pq.ParquetWriter | None = None
        with folder.filesystem.open_output_stream(folder.path_of(name)) as sink:
            for each in group:
                source = pq.ParquetFile(
                    folder.filesystem.open_input_file(folder.path_of(each.path))
                )
                if writer is None:
                    writer = pq.ParquetWriter(
                        sink, source.schema_arrow, compression=self._job.compression
                    )
                for batch in source.iter_batches():
                    writer.write_batch(batch, row_group_size=_ROW_GROUP_BYTES)
                    rows += batch.num_rows
            assert writer is not None
            writer.close()
            size_bytes = int(sink.tell())
        joined = DataFile(path=name, rows=rows, size_bytes=size_bytes, partition=group[0].partition)
        self._table.replace([each.path for each in group], [joined])
        self._say(f"{len(group)} files, {rows:,} messages, into {name}")
        return len(group)

    def _delete_orphans(self) -> int:
        """Files that no commit names and that no running task can still be about to commit."""
        oldest_s = time.time() - self._job.seconds("orphansAfter", self._job.orphans_after)
        folder = self._table.folder
        counted = {each.path for each in self._table.files()}
        deleted = 0
        for name in folder.names("", is_recursive=True):
            if name in counted or not _is_ours(name) or folder.modified_at_s(name) > oldest_s:
                continue
            folder.delete(name)
            deleted += 1
        return deleted


def _is_ours(name: str) -> bool:
    """Data files and drafts of them, never logs or checkpoints."""
    return not name.startswith("_") and ".parquet" in name.rsplit("/", 1)[-1]
