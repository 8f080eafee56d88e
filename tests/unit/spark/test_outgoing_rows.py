"""Ids and queues of rows; how they become messages: test_encoded_rows.py."""

import pytest

from emberq.errors import MessageRefused
from emberq.model.queue import MessageQueue
from emberq.spark.outgoing_rows import RowMessages, placed
from emberq.spark.row_rules import RowRules

OWN_IDS = RowRules(has_own_ids=True)


@pytest.mark.parametrize("missing", [None, ""])
def test_where_ids_decide_what_is_stored_a_row_without_one_is_refused(missing: str | None) -> None:
    rows = RowMessages("orders", "w-0-0", OWN_IDS)

    with pytest.raises(MessageRefused, match="row 1 has no id"):
        list(rows.messages({"body": [b"a", b"b"], "id": ["1", missing]}, 2))


def test_a_frame_without_ids_has_those_of_its_places() -> None:
    rows = RowMessages("orders", "w-0-0", OWN_IDS)

    found = [message.properties for message in rows.messages({"body": [b"a", b"b"]}, 2)]

    assert found == [{"SPARK_ID": "w-0-0-0"}, {"SPARK_ID": "w-0-0-1"}]


def test_a_row_that_names_a_queue_that_is_not_there_is_told() -> None:
    messages = list(RowMessages("orders", None).messages({"body": [b"a", b"b"]}, 2))
    queues = {"orders": [MessageQueue("broker-a", 0, "orders")]}

    with pytest.raises(MessageRefused, match="row 11: orders has no queue 3"):
        placed(messages, [None, 3], queues, 0, first_row=10)
