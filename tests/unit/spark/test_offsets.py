"""Offsets have one text, whatever the order they came in."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.spark.offsets import read_offsets, write_offsets

NAMES = st.text("ab%-_", min_size=1, max_size=3)
QUEUES = st.builds(MessageQueue, NAMES, st.integers(0, 20), NAMES)


@given(st.dictionaries(QUEUES, st.integers(0, 1 << 62)), st.randoms())
def test_text_is_the_same_in_every_order_and_read_back(
    offsets: dict[MessageQueue, int], random: Any
) -> None:
    shuffled = list(offsets.items())
    random.shuffle(shuffled)

    text = json.dumps(write_offsets(offsets))

    assert text == json.dumps(write_offsets(dict(shuffled)))
    assert read_offsets(json.loads(text)) == offsets


def test_queues_are_in_the_order_of_their_numbers() -> None:
    offsets = {MessageQueue("b", number, "a"): number for number in (10, 2)}

    assert json.dumps(write_offsets(offsets)) == '{"@version": 1, "a": {"b": {"2": 2, "10": 10}}}'


@pytest.mark.parametrize(
    "table",
    [
        [],
        {"a": 1},
        {"a": {"b": 1}},
        {"a": {"b": {"x": 1}}},
        {"a": {"b": {"0": "1"}}},
        {"a": {"b": {"0": True}}},
        {"a": {"b": {"0": -3}}},
        {"@version": 2},
    ],
)
def test_what_is_no_table_of_offsets_is_refused(table: Any) -> None:
    with pytest.raises(ConfigError):
        read_offsets(table)
