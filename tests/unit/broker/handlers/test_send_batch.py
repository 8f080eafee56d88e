"""Storing several messages with one request."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.errors import ProtocolError
from emberq.model.topic import TopicConfig, TopicFilterType
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import ONEWAY_BIT, HeaderEncoding
from emberq.record.batch import encode_batch_element
from tests.support.stores import SYNC, bodies_of, read_all
from tests.support.waiting import until
from tests.unit.broker.sending import (
    REGION_FIELDS,
    Sending,
    batch_request,
    send_request,
    sending,
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Sending]:
    with sending(tmp_path) as running:
        yield running


def test_the_answer_names_all_messages_and_the_first_offset(broker: Sending) -> None:
    broker.send()

    response = broker.serve(batch_request(b"one", b"two", b"three"))

    assert response is not None
    assert response.fields is not None
    records = [broker.record_of(response, number) for number in range(3)]
    assert [record.body for record in records] == [b"one", b"two", b"three"]
    assert [record.queue_offset for record in records] == [1, 2, 3]
    assert response.fields == {
        "queueId": "0",
        "msgId": ",".join(f"0A01020300002A9F{record.log_offset:016X}" for record in records),
        "queueOffset": "1",
        **REGION_FIELDS,
    }


def test_messages_are_stored_as_the_client_wrote_them(broker: Sending) -> None:
    body = encode_batch_element(b"a", b"DELAY\x013", 5) + encode_batch_element(b"b")
    request = send_request(
        "Orders",
        body,
        "WAIT\x01true",
        code=RequestCode.SEND_BATCH_MESSAGE,
        system_flag=1,
        flag=9,
        j="3",
    )

    broker.serve(request)

    first, second = read_all(broker.store)
    assert (first.properties, first.flag, first.system_flag) == (b"DELAY\x013", 5, 1)
    assert (second.properties, second.flag, second.reconsume_times) == (b"", 0, 3)


def test_tags_and_keys_are_found(broker: Sending) -> None:
    broker.serve(batch_request(b"one", b"two"))

    found = broker.store.find_by_key("Orders", "k", 10, 0, 1 << 62)
    assert len(found.records) == 2


def test_a_unique_key_of_the_request_is_answered(broker: Sending) -> None:
    response = broker.serve(batch_request(b"one", properties={"UNIQ_KEY": "U1"}))

    assert response is not None
    assert response.fields is not None
    assert response.fields["transactionId"] == "U1"


def test_a_binary_request_gets_a_binary_answer(broker: Sending) -> None:
    request = batch_request(b"one", b"two")
    request.encoding = HeaderEncoding.BINARY

    response = broker.serve(request)

    assert response is not None
    assert response.encoding is HeaderEncoding.BINARY
    assert broker.record_of(response, 1).body == b"two"


def test_the_field_decides_and_not_the_code(broker: Sending) -> None:
    body = encode_batch_element(b"one")

    broker.send(body=body, m="true")
    broker.send(body=body, code=RequestCode.SEND_BATCH_MESSAGE, m="false")

    assert bodies_of(broker.store) == [b"one", body]


def test_a_batch_counts_all_its_messages(broker: Sending) -> None:
    broker.serve(batch_request(b"one", b"two", queue_id=1))

    sizes = [record.size_bytes for record in read_all(broker.store, queue_id=1)]
    assert broker.statistics.puts == [("Orders", 1, 2, sum(sizes))]


def test_a_multi_tag_topic_marks_them(broker: Sending) -> None:
    broker.topics.put(TopicConfig(name="Multi", filter_type=TopicFilterType.MULTI_TAG))

    response = broker.serve(batch_request(b"one", topic="Multi"))

    assert response is not None
    assert broker.record_of(response).system_flag == 2


@pytest.mark.parametrize(
    ("properties", "system_flag", "code"),
    [
        ({"DELAY": "3"}, 0, 13),
        ({"INNER_NUM": "1"}, 0, 13),
        ({}, 0x80, 13),
        ({}, 0x4, 13),
        ({}, 0x8, 13),
        ({"TIMER_DELAY_MS": "1"}, 0, 13),
    ],
)
def test_what_a_batch_cannot_ask_for_is_refused(
    broker: Sending, properties: dict[str, str], system_flag: int, code: int
) -> None:
    response = broker.serve(batch_request(b"one", properties=properties, system_flag=system_flag))

    assert response is not None
    assert (response.code, response.fields) == (code, REGION_FIELDS)
    assert read_all(broker.store) == []


def test_a_batch_cannot_go_to_a_retry_topic(broker: Sending) -> None:
    short = broker.serve(batch_request(b"one", topic="%RETRY%G"))
    long = broker.serve(batch_request(b"one", topic="%RETRY%" + "g" * 125))

    assert short is not None
    assert long is not None
    assert (short.code, short.remark) == (13, "batch request does not support retry group %RETRY%G")
    assert (long.code, long.remark) == (13, "message topic length too long 132")


def test_an_empty_batch_is_illegal(broker: Sending) -> None:
    response = broker.serve(batch_request())

    assert response is not None
    assert response.code == 13


@pytest.mark.parametrize("cut", [1, 3, 10, 30])
def test_a_batch_that_is_cut_off_stores_nothing(broker: Sending, cut: int) -> None:
    request = batch_request(b"one", b"two")
    request.body = request.body[:-cut]

    with pytest.raises(ProtocolError):
        broker.serve(request)
    assert read_all(broker.store) == []


def test_a_batch_above_the_limit_is_an_error(tmp_path: Path) -> None:
    with sending(tmp_path, max_message_size=100) as broker:
        with pytest.raises(ProtocolError, match="message body size exceeded"):
            broker.serve(batch_request(b"x" * 40, b"x" * 40))
        assert broker.serve(batch_request(b"x")) is not None


def test_a_batch_larger_than_a_segment_is_illegal(broker: Sending) -> None:
    response = broker.serve(batch_request(*[b"x" * 1000] * 20))

    assert response is not None
    assert response.code == 13


def test_a_oneway_batch_is_stored(broker: Sending) -> None:
    broker.serve(batch_request(b"one", command_flag=ONEWAY_BIT))

    assert bodies_of(broker.store) == [b"one"]


async def test_under_sync_flush_the_answer_waits_for_the_disk(tmp_path: Path) -> None:
    with sending(tmp_path, **SYNC) as broker:
        assert broker.serve(batch_request(b"one", b"two")) is None

        def answers() -> int:
            broker.store.poll()
            return len(broker.peer.answered)

        await until(lambda: answers() == 1)
        assert broker.record_of(broker.peer.answered[0], 1).body == b"two"
