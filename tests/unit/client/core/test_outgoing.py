"""What leaves for a message, and what is refused before anything leaves."""

import zlib
from datetime import UTC, datetime, timedelta

import pytest

from emberq.client.core.message import Message
from emberq.client.core.outgoing import (
    Compression,
    check_batch,
    check_group,
    check_topic,
    delay_property,
    is_batch_topic,
    outgoing,
    outgoing_batch,
    plain_element_size,
    plain_elements,
    plain_outgoing,
    split_batch,
)
from emberq.errors import MessageRefused
from emberq.record.batch import encode_batch_element, iter_batch
from emberq.record.properties import parse_properties

PLAIN = Compression(above_bytes=None)
SIZE_MAX = 1000


def message(body: bytes = b"hello", **options: object) -> Message:
    return Message("orders", body, **options)  # type: ignore[arg-type] # the options vary by test


def properties(given: Message, **extra: str) -> dict[str, str]:
    ready = outgoing(
        given, "orders", "ID", compression=PLAIN, size_max=SIZE_MAX, extra=extra.items()
    )
    return parse_properties(ready.properties)


def test_properties_carry_tags_keys_and_the_id() -> None:
    given = message(tags="A", keys=["k1", "k2"], properties={"color": "red"}, ordering_key=7)

    assert properties(given, INSTANCE_ID="ns") == {
        "color": "red",
        "TAGS": "A",
        "KEYS": "k1 k2",
        "__SHARDINGKEY": "7",
        "INSTANCE_ID": "ns",
        "UNIQ_KEY": "ID",
        "WAIT": "true",
    }


def test_one_key_may_be_plain_text() -> None:
    assert properties(message(keys="k1"))["KEYS"] == "k1"


def test_who_does_not_wait_for_the_store_says_so() -> None:
    assert properties(message(is_store_awaited=False))["WAIT"] == "false"


@pytest.mark.parametrize(
    ("delay", "name", "value"),
    [
        (3, "DELAY", "3"),
        (timedelta(seconds=1.5), "TIMER_DELAY_MS", "1500"),
        (timedelta(milliseconds=1, microseconds=1), "TIMER_DELAY_MS", "2"),
        (datetime(2026, 1, 1, tzinfo=UTC), "TIMER_DELIVER_MS", "1767225600000"),
        (datetime(2026, 1, 1, 0, 0, 0, 246_057, tzinfo=UTC), "TIMER_DELIVER_MS", "1767225600247"),
    ],
)
def test_delays_are_levels_times_or_moments(
    delay: int | timedelta | datetime, name: str, value: str
) -> None:
    assert delay_property(delay) == (name, value)
    assert properties(message(delay=delay))[name] == value


@pytest.mark.parametrize("delay", [-1, True, timedelta(seconds=-1)])
def test_delays_into_the_past_are_refused(delay: int | timedelta) -> None:
    with pytest.raises(MessageRefused):
        delay_property(delay)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (message(b""), "needs a body"),
        (message(bytes(SIZE_MAX + 1)), "at most 1000"),
        (message(properties={"KEYS": "x"}), "KEYS is reserved"),
        (message(properties={"a": ""}), "'a' is empty"),
        (message(properties={"a": "x\x02y"}), "separator"),
        (message(properties={"a": 1}), "int, expected text"),
        (message(properties={"a": "x" * 40_000}), "32767 bytes"),
        (Message("orders", "text"), "not str"),
    ],
)
def test_what_no_broker_takes_is_refused(given: Message, reason: str) -> None:
    with pytest.raises(MessageRefused, match=reason):
        properties(given)


@pytest.mark.parametrize("topic", ["", "a b", "ü", "x" * 128, "SCHEDULE_TOPIC_XXXX"])
def test_topics_that_cannot_be_are_refused(topic: str) -> None:
    with pytest.raises(MessageRefused):
        check_topic(topic)


@pytest.mark.parametrize("group", ["", "a b", "x" * 256])
def test_groups_that_cannot_be_are_refused(group: str) -> None:
    with pytest.raises(MessageRefused):
        check_group(group)


def test_large_bodies_are_compressed_as_official_clients_do() -> None:
    ready = outgoing(
        message(b"x" * 500),
        "orders",
        "ID",
        compression=Compression(above_bytes=500),
        size_max=SIZE_MAX,
    )

    assert zlib.decompress(ready.body) == b"x" * 500
    assert ready.system_flag == 0x301


def test_a_batch_is_cut_where_it_would_not_fit() -> None:
    given = [(message(bytes([65 + number]) * 300), f"ID{number}") for number in range(4)]

    pieces = list(split_batch(given, SIZE_MAX))

    assert [[each for _, each in piece] for piece in pieces] == [["ID0", "ID1"], ["ID2", "ID3"]]
    elements, message_ids = zip(*pieces[0], strict=True)
    ready = outgoing_batch("orders", elements, message_ids, is_store_awaited=False)
    assert [bytes(element.body[:1]) for element in iter_batch(ready.body)] == [b"A", b"B"]
    assert ready.message_id == "ID0,ID1"
    assert parse_properties(ready.properties) == {"WAIT": "false"}


def test_plain_messages_are_encoded_together_as_one_by_one() -> None:
    bodies = [bytes(size) for size in (1, 5, 300)]
    message_ids = [f"{number:032X}" for number in range(len(bodies))]

    together = plain_elements(bodies, message_ids)

    one_by_one = []
    for body, message_id in zip(bodies, message_ids, strict=True):
        ready = outgoing(message(body), "orders", message_id, compression=PLAIN, size_max=SIZE_MAX)
        assert plain_outgoing("orders", body, message_id) == ready
        one_by_one.append(encode_batch_element(body, ready.properties.encode()))
        assert len(one_by_one[-1]) == len(body) + plain_element_size(message_id)
    assert together == b"".join(one_by_one)


def test_retries_do_not_travel_in_batches() -> None:
    assert is_batch_topic("orders")
    assert not is_batch_topic("%RETRY%readers")
    with pytest.raises(MessageRefused):
        is_batch_topic("no topic")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "empty"),
        ([message(), Message("other", b"x")], "one topic"),
        ([message(), message(is_store_awaited=False)], "as a whole"),
        ([message(delay=1)], "delayed"),
        ([Message("%RETRY%g", b"x")], "retries"),
    ],
)
def test_messages_that_cannot_travel_together_are_refused(
    messages: list[Message], reason: str
) -> None:
    with pytest.raises(MessageRefused, match=reason):
        check_batch(messages)


def test_a_message_too_large_for_any_batch_is_refused() -> None:
    with pytest.raises(MessageRefused, match="at most"):
        list(split_batch([(message(bytes(990)), "ID")], SIZE_MAX))
