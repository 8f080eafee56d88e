"""Times in rows that come to the driver: aware, in UTC.

PySpark's `collect` makes naive times of the zone that the driver is in, whatever the session's zone
is; and in the night in which clocks are put back, two moments become one.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def collect_utc(frame: "DataFrame") -> "list[Row]":
    """The rows of a frame, its columns of times in UTC. A time inside a struct is not looked for:
    select it."""
    from pyspark.sql import Row  # noqa: PLC0415 - an extra
    from pyspark.sql import functions as f  # noqa: PLC0415
    from pyspark.sql.types import TimestampType  # noqa: PLC0415

    fields = frame.schema.fields
    is_time = [isinstance(field.dataType, TimestampType) for field in fields]
    # Columns by place: names may be expressions, or the same twice.
    places = [f"c{place}" for place in range(len(fields))]
    plain = frame.toDF(*places).select(
        *(f.unix_micros(name) if each else name for name, each in zip(places, is_time, strict=True))
    )
    named = Row(*(field.name for field in fields))
    return [
        named(*(utc(value) if each else value for value, each in zip(row, is_time, strict=True)))
        for row in plain.collect()
    ]


def utc(micros: int | None) -> datetime | None:
    """Microseconds since 1970 as a time."""
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
