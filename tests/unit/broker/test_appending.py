"""How messages enter the store."""

from pathlib import Path
from typing import Any

import pytest

from emberq.broker.appending import (
    OutgoingMessage,
    delay_level,
    is_wait_wanted,
    refusal,
)
from emberq.broker.config import BrokerConfig
from emberq.errors import ProtocolError
from emberq.record.properties import decode_properties
from emberq.store.consume_queue import ENTRY
from emberq.store.disk_space import DiskUsage
from emberq.store.results import PutStatus
from tests.support.stores import START_MS, read_all
from tests.unit.broker.sending import BORN_HOST, sending


def message(properties: dict[str, str], **changes: Any) -> OutgoingMessage:
    values: dict[str, Any] = {"topic": "Orders", "queue_id": 2, "body": b"hello"}
    return OutgoingMessage(**{**values, **changes}, properties=properties, born_host=BORN_HOST)


def test_a_message_goes_where_it_says(tmp_path: Path) -> None:
    with sending(tmp_path) as broker:
        appended = broker.appender.put(
            message({"TAGS": "a"}, flag=3, born_at_ms=5, reconsume_times=4, prepared_offset=6)
        )

        [record] = read_all(broker.store, "Orders", 2)
    assert (appended.topic, appended.queue_id) == ("Orders", 2)
    assert appended.size == record.size_bytes
    assert (record.flag, record.born_at_ms, record.reconsume_times) == (3, 5, 4)
    assert record.prepared_offset == 6
    assert record.properties == b"TAGS\x01a\x02"


def test_a_delay_level_leads_through_the_schedule_topic(tmp_path: Path) -> None:
    with sending(tmp_path) as broker:
        appended = broker.appender.put(message({"DELAY": "3", "TAGS": "a", "TIMER_DELAY_MS": "5"}))

        assert (appended.topic, appended.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
        [record] = read_all(broker.store, appended.topic, 2)
        queue = broker.store.queues.get(appended.topic, 2)
        assert queue is not None
        entries = queue.entries(0, 1)
    assert decode_properties(record.properties) == {
        "DELAY": "3",
        "TAGS": "a",
        "REAL_TOPIC": "Orders",
        "REAL_QID": "2",
    }
    assert entries is not None
    assert ENTRY.unpack(entries)[2] == START_MS + 10_000, "the entry says when it is due"


def test_a_level_above_the_highest_is_lowered(tmp_path: Path) -> None:
    with sending(tmp_path, {"message_delay_level": "1s 2s"}) as broker:
        appended = broker.appender.put(message({"DELAY": "9"}))

        [record] = read_all(broker.store, appended.topic, 1)
    assert b"DELAY\x012\x02" in record.properties


@pytest.mark.parametrize(
    ("properties", "system_flag", "status"),
    [
        ({"TIMER_DELAY_SEC": "1"}, 0, PutStatus.WHEEL_TIMER_NOT_ENABLE),
        ({"INNER_NUM": "2"}, 0, PutStatus.MESSAGE_ILLEGAL),
        ({}, 0x80, PutStatus.MESSAGE_ILLEGAL),
        ({"a\x02": "b"}, 0, PutStatus.MESSAGE_ILLEGAL),
    ],
)
def test_what_cannot_be_stored_is_refused(
    tmp_path: Path, properties: dict[str, str], system_flag: int, status: PutStatus
) -> None:
    with sending(tmp_path) as broker:
        appended = broker.appender.put(message(properties, system_flag=system_flag))

        assert appended.result.status is status
        assert read_all(broker.store, "Orders", 2) == []


@pytest.mark.parametrize("text", ["abc", "", " 1", "1_0", "٣", "2147483648", "+-1", "9" * 5000])
def test_a_level_that_is_no_number_is_an_error(text: str) -> None:
    with pytest.raises(ProtocolError):
        delay_level({"DELAY": text})


def test_levels_are_read_as_java_reads_them() -> None:
    levels = [delay_level({"DELAY": text}) for text in ("3", "+3", "-1", "007")]

    assert levels == [3, 3, -1, 7]
    assert delay_level({}) == 0


def test_producers_wait_unless_they_say_otherwise() -> None:
    assert [is_wait_wanted({"WAIT": text}) for text in ("true", "TRUE", "false", "1")] == [
        True,
        True,
        False,
        False,
    ]
    assert is_wait_wanted({})


USAGE = DiskUsage(
    commit_log_ratio=0.914, queues_ratio=0.5, index_ratio=-1, total_bytes=10, free_bytes=1
)


@pytest.mark.parametrize(
    ("status", "code", "remark"),
    [
        (
            PutStatus.MESSAGE_ILLEGAL,
            13,
            "the message is illegal, maybe msg body or properties length not matched. "
            "msg body length limit 100B, msg properties length limit 32KB.",
        ),
        (
            PutStatus.SERVICE_NOT_AVAILABLE,
            14,
            "service not available now. It may be caused by one of the following reasons: the "
            "broker's disk is full [CL:  0.91 CQ:  0.50 INDEX: -1.00], messages are put to the "
            "slave, message store has been shut down, etc.",
        ),
        (
            PutStatus.OS_PAGE_CACHE_BUSY,
            2,
            "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
        ),
        (
            PutStatus.CREATE_MAPPED_FILE_FAILED,
            1,
            "create mapped file failed, server is busy or broken.",
        ),
        (
            PutStatus.WHEEL_TIMER_NOT_ENABLE,
            1,
            "accurate timer message is not enabled, timerWheelEnable is false",
        ),
        (PutStatus.UNKNOWN_ERROR, 1, "UNKNOWN_ERROR"),
    ],
)
def test_refusals_have_the_official_words(status: PutStatus, code: int, remark: str) -> None:
    error = refusal(
        status, {"a": "b"}, config=BrokerConfig(), body_size_max=100, disk_usage=lambda: USAGE
    )

    assert (error.code, error.remark, error.fields) == (code, remark, {"a": "b"})
