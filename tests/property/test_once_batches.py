"""Batches that are repeated in any way leave each message stored once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.broker.once_batches import new_messages, unique_keys
from emberq.errors import ProtocolError
from emberq.record.batch import BatchElement, encode_batch, iter_batch

IDS = st.lists(st.integers(0, 12), max_size=8)


def batch(ids: list[int]) -> bytes:
    return encode_batch(
        BatchElement(b"body %d" % each, b"a\x01b\x02UNIQ_KEY\x01%032X\x02WAIT\x01true\x02" % each)
        for each in ids
    )


def ids_in(body: bytes) -> list[int]:
    return [int(key, 16) for key in unique_keys(body)]


@given(st.lists(IDS, max_size=12))
def test_whatever_is_repeated_each_id_is_stored_once_in_the_order_of_its_first_arrival(
    requests: list[list[int]],
) -> None:
    log: list[int] = []
    for ids in requests:
        body = batch(ids)
        stored = {f"{each:032X}" for each in log}
        log += ids_in(new_messages(body, unique_keys(body), stored))

    assert log == list(dict.fromkeys(each for ids in requests for each in ids))


@given(IDS, st.sets(st.integers(0, 12)))
def test_messages_that_are_kept_are_kept_byte_by_byte(ids: list[int], stored: set[int]) -> None:
    body = batch(ids)

    left = new_messages(body, unique_keys(body), {f"{each:032X}" for each in stored})

    new = [each for each in dict.fromkeys(ids) if each not in stored]
    assert left == batch(new)
    assert [bytes(element.body) for element in iter_batch(left)] == [b"body %d" % n for n in new]


@given(st.binary(max_size=60))
def test_garbage_is_a_protocol_error_or_a_batch(content: bytes) -> None:
    try:
        keys = unique_keys(content)
    except ProtocolError:
        return
    assert new_messages(content, keys, ()) == content or len(keys) != len(set(keys))


def test_a_message_without_an_id_cannot_be_stored_once() -> None:
    with pytest.raises(ProtocolError, match="message 1 of the batch has no UNIQ_KEY"):
        unique_keys(batch([1]) + encode_batch([BatchElement(b"x", b"a\x01b\x02")]))
