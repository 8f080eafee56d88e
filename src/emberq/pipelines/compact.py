"""Small files of an archive into larger ones, old partitions away, leftovers away."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar

import pyarrow as pa
from msgspec import Meta

from emberq.errors import ConfigError, PipelineError
from emberq.pipelines.job import Job, Report, ReportTable, Say
from emberq.pipelines.streaming import Clock
from emberq.pipelines.tables import DataFile, Table
from emberq.pipelines.tables.compaction import Compaction, CompactionTerms
from emberq.pipelines.tables.parquet import ParquetTable
from emberq.pipelines.tables.parquet_compaction import ParquetCompaction
from emberq.spark.archive.addresses import is_local
from emberq.spark.archive.layout import COMPRESSIONS, partition_path
from emberq.spark.option_values import OptionTexts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMATS = ("parquet", "delta")


class Compact(Job, kw_only=True):
    """Join small files, drop old days, delete files that no log names.

    Safe beside a running archive and whoever reads: files are exchanged in one commit of the
    table, and a file is deleted when the log removed it longer ago than `orphansAfter`, or when
    the log never named it and it is older. A Parquet table in an object store is the exception:
    there a commit may overwrite another one, so nobody else may write meanwhile, and `alone` has
    to say so.
    """

    name: ClassVar[str] = "compact"

    path: Annotated[str, Meta(description="the table that `archive` wrote")]
    format: Annotated[str, Meta(description="parquet or delta")] = "parquet"
    file_size: Annotated[str, Meta(description="about how large files become")] = "256m"
    keep: Annotated[str, Meta(description="drop days older than this: 30d; empty: none")] = ""
    orphans_after: Annotated[
        str,
        Meta(
            description="how long files stay that the log has removed, or never named; Delta "
            "counts hours, rounded up"
        ),
    ] = "24h"
    compression: Annotated[str, Meta(description="zstd, snappy, gzip, lz4 or none")] = "zstd"
    alone: Annotated[
        bool,
        Meta(description="nobody else writes meanwhile: for parquet tables in object stores"),
    ] = False

    def run(self, spark: "SparkSession | None" = None, say: Say = lambda _: None) -> Report:
        clock = Clock()
        facts = self._compaction().run(say)
        return Report(facts={**facts, "seconds": round(clock.seconds, 1)})

    def plan(self, spark: "SparkSession | None" = None) -> Report:
        plan = self._compaction().plan()
        joined = [each for group in plan.groups for each in group]
        return Report(
            facts={
                "table": f"{self.format} {self.path}",
                "files": len(plan.files),
                "bytes": _bytes(plan.files),
                "files of days to drop": len(plan.dropped),
                "files to join": len(joined),
                "groups of them": len(plan.groups),
                "files to delete": len(plan.deleted),
            },
            tables=[
                table
                for table in (
                    _files_table("Days to drop", _by_partition(plan.dropped)),
                    _files_table("Files to join", plan.groups),
                    ReportTable(
                        title="Files to delete",
                        columns=["file"],
                        rows=[[name] for name in plan.deleted],
                    ),
                )
                if table.rows
            ],
        )

    def _compaction(self) -> Compaction:
        """What does it, after all that could be refused. Raises ConfigError, PipelineError."""
        if self.format not in _FORMATS:
            raise ConfigError(
                f"compact works on parquet and delta tables, not on {self.format}; Iceberg tables "
                "are tidied by an engine that has their catalog"
            )
        terms = self._terms()
        if self.format == "delta":
            return self._of_delta(terms)
        if not is_local(self.path) and not self.alone:
            raise ConfigError(
                "compact of a parquet table in an object store may lose what an archive commits at "
                "the same time: stop the archive and give alone, or keep the table as delta"
            )
        table = ParquetTable(self.path)
        self._check(is_made=table.is_made)
        _check_days(table, terms)
        return ParquetCompaction(table, terms)

    def _of_delta(self, terms: CompactionTerms) -> Compaction:
        from emberq.pipelines.tables.delta import DeltaLakeTable  # noqa: PLC0415 - an extra
        from emberq.pipelines.tables.delta_compaction import DeltaCompaction  # noqa: PLC0415

        table = DeltaLakeTable(self.path, pa.schema([]), ())
        self._check(is_made=table.is_made)
        _check_days(table, terms)
        return DeltaCompaction(table, terms)

    def _check(self, *, is_made: bool) -> None:
        if not is_made:
            raise PipelineError(f"there is no {self.format} table at {self.path}")

    def _terms(self) -> CompactionTerms:
        texts = OptionTexts({"compression": self.compression}, ["compression"])
        return CompactionTerms(
            file_size_bytes=self.size_option("fileSize", self.file_size),
            compression=texts.choice("compression", COMPRESSIONS, "zstd"),
            orphans_after_s=_seconds("orphansAfter", self.orphans_after),
            oldest_day=_oldest_day(self.keep) if self.keep.strip() else None,
        )


def _check_days(table: Table, terms: CompactionTerms) -> None:
    if terms.oldest_day is None:
        return
    files = table.files()
    if files and not any("date" in each.partition for each in files):
        raise ConfigError("keep needs a table that is partitioned by date")


def _oldest_day(keep: str) -> date:
    kept_s = _seconds("keep", keep)
    try:
        return (datetime.now(UTC) - timedelta(seconds=kept_s)).date()
    except OverflowError:
        raise ConfigError(f"keep={keep!r}: that is before the year 1") from None


def _seconds(name: str, text: str) -> float:
    if not text.strip():
        raise ConfigError(f"{name} needs a value")
    return OptionTexts({name: text}, [name]).seconds(name, 0)


def _by_partition(files: Sequence[DataFile]) -> list[list[DataFile]]:
    partitions: dict[str, list[DataFile]] = {}
    for each in files:
        partitions.setdefault(partition_path(each.partition), []).append(each)
    return list(partitions.values())


def _files_table(title: str, groups: Sequence[Sequence[DataFile]]) -> ReportTable:
    return ReportTable(
        title=title,
        columns=["partition", "files", "messages", "bytes"],
        rows=[
            [
                partition_path(group[0].partition),
                len(group),
                sum(each.rows for each in group),
                _bytes(group),
            ]
            for group in groups
        ],
    )


def _bytes(files: Sequence[DataFile]) -> int:
    return sum(each.size_bytes for each in files)
