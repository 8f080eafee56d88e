"""Trace messages of clients as rows."""

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from emberq.client.core.trace_records import HALF, NORMAL, Sent
from emberq.pipelines.trace_events import event_batches, event_rows


def sent(ids: str, message_type: int = NORMAL, body_size: int = 7) -> bytes:
    return (
        Sent(
            at_ms=1_700_000_000_000,
            region="r",
            group="writers",
            topic="orders",
            message_id=ids,
            tags=None,
            keys="k1 k2",
            broker_address="127.0.0.1:10911",
            body_size=body_size,
            cost_ms=3,
            message_type=message_type,
            offset_message_id="offset-id",
        )
        .text()
        .encode()
    )


def test_a_batch_of_messages_makes_a_row_for_each() -> None:
    rows = list(event_rows(sent("id-1,id-2"), "10.0.0.7"))

    assert [row["messageId"] for row in rows] == ["id-1", "id-2"]
    first = rows[0]
    assert (first["kind"], first["topic"], first["group"]) == ("published", "orders", "writers")
    assert (first["keys"], first["costMs"], first["tags"]) == ("k1 k2", 3, None)
    assert first["clientHost"] == "10.0.0.7"


def test_rows_tell_what_kind_of_message_was_sent() -> None:
    (half,) = event_rows(sent("id-1", HALF), None)
    (plain,) = event_rows(sent("id-1"), None)

    assert (half["messageType"], plain["messageType"]) == ("half", "normal")


def test_a_message_of_a_batch_counts_as_an_even_share_of_its_body() -> None:
    rows = event_rows(sent("id-1,id-2,id-3", body_size=3002), None)

    assert [row["bodySize"] for row in rows] == [1000, 1000, 1000]


def test_what_is_no_trace_makes_no_row() -> None:
    assert list(event_rows(b"\xff\x01 nonsense \x02Pub\x01x\x02", None)) == []


def test_a_number_that_no_column_holds_costs_its_own_event_only() -> None:
    good, bad = sent("id-1"), sent("id-2", body_size=10**20)
    late = sent("id-3").replace(b"1700000000000", b"9" * 17)
    batch = pa.RecordBatch.from_pylist(
        [{"body": bad + late + good, "bornHost": None}],
        schema=pa.schema([("body", pa.binary()), ("bornHost", pa.string())]),
    )

    (made,) = event_batches(iter([batch]))

    assert made.column("messageId").to_pylist() == ["id-1"]


def test_rows_are_typed_even_where_a_batch_has_none() -> None:
    batch = pa.RecordBatch.from_pylist(
        [{"body": b"nothing", "bornHost": None}],
        schema=pa.schema([("body", pa.binary()), ("bornHost", pa.string())]),
    )

    (made,) = event_batches(iter([batch]))

    assert made.num_rows == 0
    assert made.schema.field("atMs").type == pa.int64()
