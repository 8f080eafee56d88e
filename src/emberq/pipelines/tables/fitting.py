"""Whether what an archive writes fits the table that is there. Pure."""

from collections.abc import Collection, Sequence

import pyarrow as pa

from emberq.errors import ConfigError
from emberq.spark.archive.layout import NO_PARTITIONS


def check_partitions(
    root: str, there: Collection[Sequence[str]], partition_by: Sequence[str]
) -> None:
    """`there` has the ways in which files are partitioned: one, but for early tables.

    Raises:
        ConfigError: files of another way would come beside them.
    """
    ways = [_words(way) for way in there]
    given = _words(partition_by)
    if given not in ways:
        raise ConfigError(
            f"{root} is partitioned by {' and by '.join(ways)}, not by {given}: give "
            f"partitionBy={ways[0]}, or another path"
        )


def check_columns(root: str, there: pa.Schema, rows: pa.Schema, *, takes_columns: bool) -> None:
    """Columns that the rows lack are read as null.

    Raises:
        ConfigError: a column has another type, or is new where the format takes none later.
    """
    for field in rows:
        if field.name in there.names and there.field(field.name).type != field.type:
            known = there.field(field.name).type
            raise ConfigError(f"{root}: the column {field.name} is {known} there, not {field.type}")
    new = [name for name in rows.names if name not in there.names]
    if new and not takes_columns:
        raise ConfigError(
            f"{root} has no column {' and '.join(new)}, and only parquet tables are given more "
            "later: name its own in columns, or give another path"
        )


def _words(partition_by: Sequence[str]) -> str:
    return ",".join(partition_by) or NO_PARTITIONS
