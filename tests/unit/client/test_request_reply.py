"""What a pushed reply becomes, and what can be replied to."""

import pytest

from emberq.client.aio.request_reply import (
    PENDING_REPLIES_MAX,
    PendingReplies,
    pushed_reply,
    queue_near,
    reply_properties,
    reply_topic_of,
)
from emberq.client.core.received import ReceivedMessage
from emberq.errors import MessageRefused, TooManyPendingCalls
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, new_request
from emberq.record.compression import compress
from emberq.record.decode import decode_record
from emberq.record.encode import encode_record
from emberq.record.properties import encode_properties
from emberq.record.system_flag import CompressionType, with_compression


def reply_command(correlation_id: str, body: bytes = b"pong", system_flag: int = 0) -> Command:
    fields = {
        "producerGroup": "repliers",
        "topic": "c_REPLY_TOPIC",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": str(system_flag),
        "bornTimestamp": "1000",
        "flag": "0",
        "properties": f"CORRELATION_ID\x01{correlation_id}\x02UNIQ_KEY\x01ABC\x02",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "bornHost": "/10.0.0.1:5000",
        "storeHost": "10.0.0.2:10911",
        "storeTimestamp": "2000",
    }
    return new_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, body)


def received(properties: dict[str, str | None]) -> ReceivedMessage:
    record = decode_record(encode_record("orders", b"x", encode_properties(properties)))
    return ReceivedMessage(record, MessageQueue("broker-0", 0, "orders"), "orders")


def test_a_pushed_reply_reads_as_a_message() -> None:
    correlation_id, message = pushed_reply(reply_command("id-1"))

    assert correlation_id == "id-1"
    assert (message.body, message.message_id, message.born_at_ms) == (b"pong", "ABC", 1000)
    assert (message.born_host, message.store_host) == ("10.0.0.1:5000", "10.0.0.2:10911")
    assert int(message.properties["ARRIVE_TIME"]) > 0


def test_a_compressed_reply_is_decompressed() -> None:
    body = compress(b"pong" * 100, CompressionType.ZLIB, 5)

    _, message = pushed_reply(
        reply_command("id-1", body, with_compression(0, CompressionType.ZLIB))
    )

    assert message.body == b"pong" * 100


def test_a_reply_carries_what_finds_the_requester() -> None:
    request = received(
        {"CLUSTER": "c", "CORRELATION_ID": "id", "REPLY_TO_CLIENT": "me", "TTL": "3000"}
    )

    assert reply_topic_of(request) == "c_REPLY_TOPIC"
    assert dict(reply_properties(request)) == {
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "id",
        "REPLY_TO_CLIENT": "me",
        "TTL": "3000",
    }


def test_what_is_no_request_cannot_be_replied_to() -> None:
    with pytest.raises(MessageRefused, match="no request"):
        reply_properties(received({"CLUSTER": "c"}))
    with pytest.raises(MessageRefused, match="cluster"):
        reply_topic_of(received({"CORRELATION_ID": "id"}))


def test_a_reply_goes_to_the_broker_of_its_request() -> None:
    queues = [MessageQueue("a", 0, "t"), MessageQueue("b", 0, "t")]

    assert queue_near(queues, "b") is queues[1]
    assert queue_near(queues, "gone") is queues[0]


async def test_waiting_requests_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    replies = PendingReplies()
    ids = [replies.expect()[0] for _ in range(PENDING_REPLIES_MAX)]

    with pytest.raises(TooManyPendingCalls):
        replies.expect()
    for correlation_id in ids:
        replies.forget(correlation_id)
    assert len(replies) == 0


async def test_replies_that_nobody_waits_for_or_can_read_are_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    replies = PendingReplies()
    correlation_id, reply = replies.expect()

    replies.take(new_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, {}), "broker:1")
    replies.take(reply_command("other"), "broker:1")
    assert not reply.done()
    assert "reply_unreadable broker=broker:1" in caplog.text
    replies.take(reply_command(correlation_id), "broker:1")
    replies.take(reply_command(correlation_id, b"twice"), "broker:1")

    assert (await reply).body == b"pong"
