"""The short readers of hot requests agree with the general one on every input."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.broker.pull_request import Pull, read_pull
from emberq.errors import ProtocolError
from emberq.protocol.header_fields import from_fields, read_int32, read_int64
from emberq.protocol.headers.offsets import UpdateConsumerOffset
from emberq.protocol.headers.pull import PullMessage

pytestmark = pytest.mark.property

NUMBERS = st.one_of(
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.integers(0, 100).map(str),
    st.sampled_from(
        ["", "0", "007", "+5", "-0", " 5", "5 ", "1_0", "٥", "²", "x", "1.0", "9" * 30]
    ),
)
NAMES = st.sampled_from(["", "g", "T", "*", "TAG", "SQL92"]) | st.text(max_size=5)


def fields_of(numbers: list[str], texts: list[str]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries(
        {}, optional={**dict.fromkeys(numbers, NUMBERS), **dict.fromkeys(texts, NAMES)}
    )


PULLS = fields_of(
    [
        *("queueId", "queueOffset", "maxMsgNums", "sysFlag"),
        *("commitOffset", "suspendTimeoutMillis", "subVersion"),
    ],
    ["consumerGroup", "topic", "subscription", "expressionType", "bname"],
)
COMMITS = fields_of(["queueId", "commitOffset"], ["consumerGroup", "topic"])
PLAIN_PULL = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "1",
    "queueOffset": "2",
    "maxMsgNums": "32",
    "sysFlag": "3",
    "commitOffset": "4",
    "suspendTimeoutMillis": "15000",
    "subVersion": "1700000000000",
}


def read_generally(fields: dict[str, str]) -> Any:
    # A flag decides whether these three mean anything; without it they may be missing.
    absent = {"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
    try:
        header = from_fields(PullMessage, {**absent, **fields})
    except ProtocolError as error:
        return str(error)
    return Pull(
        header.consumer_group,
        header.topic,
        header.queue_id,
        header.queue_offset,
        header.max_message_count,
        header.system_flag,
        header.commit_offset,
        header.suspend_timeout_ms,
        header.subscription,
        header.expression_type,
        header.subscription_version,
    )


def read_shortly(fields: dict[str, str]) -> Any:
    try:
        return read_pull(fields)
    except ProtocolError as error:
        return str(error)


@given(PULLS)
def test_pulls_of_any_fields(fields: dict[str, str]) -> None:
    assert read_shortly(fields) == read_generally(fields)


@given(PULLS)
def test_pulls_that_are_whole_but_for_some_fields(fields: dict[str, str]) -> None:
    whole = {**PLAIN_PULL, **fields}

    assert read_shortly(whole) == read_generally(whole)


def test_a_plain_pull() -> None:
    assert read_pull(PLAIN_PULL) == read_generally(PLAIN_PULL)


@given(COMMITS)
def test_commits(fields: dict[str, str]) -> None:
    queue_id, offset = read_int32(fields.get("queueId")), read_int64(fields.get("commitOffset"))
    try:
        header = from_fields(UpdateConsumerOffset, fields)
    except ProtocolError:
        assert None in (queue_id, offset) or not {"consumerGroup", "topic"} <= fields.keys()
    else:
        assert (queue_id, offset) == (header.queue_id, header.commit_offset)
