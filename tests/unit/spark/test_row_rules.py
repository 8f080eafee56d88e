"""Rows that no broker would take: what is said about each."""

from typing import Any

import pytest

from emberq.client.core.message import Message
from emberq.errors import MessageRefused
from emberq.record.layout import PROPERTIES_SIZE_MAX
from emberq.spark.outgoing_rows import RowMessages
from emberq.spark.row_rules import RowRules, fits_together

SMALL = RowRules(size_max_bytes=200)
ALWAYS_BATCHED = RowRules(size_max_bytes=200, is_never_alone=True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"body": b""}, "row 8 for orders: a message needs a body"),
        ({"body": bytes(201)}, "row 8 for orders: a body of 201 bytes, at most 200 can be sent"),
        ({"tags": " "}, "row 8 for orders: the property 'TAGS' is empty"),
        ({"keys": "a\x01b"}, "row 8 for orders: the property 'KEYS' contains a separator"),
        ({"shardingKey": ""}, "row 8 for orders: the property '__SHARDINGKEY' is empty"),
        ({"properties": [("KEYS", "k")]}, "row 8 for orders: the property KEYS is reserved"),
        ({"topic": "bad topic"}, "row 8 for bad topic: the topic 'bad topic' may have letters"),
        ({"topic": "%RETRY%group"}, "row 8 for %RETRY%group: retries cannot be sent in a batch"),
        ({"body": None}, "row 8 has no body"),
    ],
)
def test_a_row_that_is_refused_is_named(row: dict[str, Any], message: str) -> None:
    rows = RowMessages("orders", None, SMALL)
    rows.count = 7
    columns = {name: [None, value] for name, value in row.items()}
    columns["body"] = [b"good", row.get("body", b"x")]

    with pytest.raises(MessageRefused, match=message):
        list(rows.messages(columns, 2))


def test_a_body_that_is_too_large_leads_to_the_option() -> None:
    with pytest.raises(MessageRefused, match=r"send\.maxBytes is the most that is sent"):
        SMALL.check(Message("orders", bytes(201)), 0)


def test_where_a_row_cannot_go_alone_its_properties_count_as_well() -> None:
    message = Message("orders", bytes(199))
    SMALL.check(message, 0)

    with pytest.raises(MessageRefused, match=r"row 3 for orders: a message of 2.. bytes with its"):
        ALWAYS_BATCHED.check(message, 3)


def test_a_row_that_waits_or_is_no_part_of_a_batch_may_be_a_retry() -> None:
    SMALL.check(Message("%RETRY%group", b"x", delay=1), 0)
    RowRules(is_batched=False).check(Message("%RETRY%group", b"x"), 0)


def test_what_the_sink_adds_later_is_measured_with_the_row() -> None:
    message = Message("orders", b"x", properties={"own": "v" * (PROPERTIES_SIZE_MAX - 100)})
    RowRules().check(message, 0)

    with pytest.raises(MessageRefused, match="row 5 for orders: properties of more than"):
        RowRules(more_properties=(("later", "v" * 100),)).check(message, 5)


@pytest.mark.parametrize(
    ("message", "fits"),
    [
        (Message("orders", b"x"), True),
        (Message("orders", b"x", delay=1), False),
        (Message("orders", bytes(190)), False),
        (Message("orders", bytes(100), properties={"a": "b" * 100}), False),
    ],
)
def test_what_fits_into_a_batch_fits_with_its_properties(message: Message, fits: bool) -> None:
    assert fits_together(message, 200) is fits
