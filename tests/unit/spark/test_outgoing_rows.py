"""Rows that are counted and not sent; how they become messages: test_encoded_rows.py."""

import pyarrow as pa

from emberq.spark.outgoing_rows import rows_by_topic


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
