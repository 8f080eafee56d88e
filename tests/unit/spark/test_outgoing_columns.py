"""Columns that are read as values of rows, and rows that are counted and not sent."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from emberq.errors import MessageRefused
from emberq.spark.outgoing_columns import rows_by_topic, values_of


def batch(*topics: str | None) -> pa.RecordBatch:
    bodies = ["x"] * len(topics)
    return pa.RecordBatch.from_pydict({"body": bodies, "topic": pa.array(topics, pa.string())})


def test_rows_are_counted_where_they_would_go() -> None:
    plain = pa.RecordBatch.from_pydict({"body": ["x", "y"]})

    assert rows_by_topic(iter([plain, plain]), "orders") == {"orders": 4}
    assert rows_by_topic(iter([batch("audit", None), batch("", "audit")]), "orders") == {
        "audit": 2,
        "orders": 2,
    }
    assert rows_by_topic(iter([]), "orders") == {}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "GMT+8", "UTC+8", "Z", "+08:00"])
def test_moments_do_not_depend_on_how_a_zone_is_called(zone: str) -> None:
    moment = datetime(2026, 11, 1, 5, 30, 0, 123456, tzinfo=UTC)
    micros = round(moment.timestamp() * 1_000_000)
    column = pa.array([micros, None], pa.timestamp("us", zone))

    assert values_of("deliverAt", column, 0) == [moment, None]


@pytest.mark.parametrize("micros", [253402300800000000, -62135596800000001, (1 << 63) - 1])
def test_a_moment_that_python_has_not_is_told_with_its_row(micros: int) -> None:
    column = pa.array([0, micros], pa.timestamp("us", "GMT+8"))

    with pytest.raises(MessageRefused, match="row 41 has no year from 1 to 9999 in its column d"):
        values_of("deliverAt", column, 40)
