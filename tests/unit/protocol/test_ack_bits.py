"""The texts of pop: acknowledged positions and receipts."""

import pytest

from emberq.errors import ProtocolError
from emberq.protocol.ack_bits import ACK_POSITION_MAX, decode_ack_bits, encode_ack_bits
from emberq.protocol.extra_info import PopReceipt, PopTopicKind


def test_positions_have_the_official_text() -> None:
    assert encode_ack_bits([0, 3, 8]) == "CQE="
    assert decode_ack_bits("CQE=") == [0, 3, 8]


def test_the_order_and_repetition_of_positions_do_not_matter() -> None:
    assert encode_ack_bits([8, 0, 3, 8]) == "CQE="


def test_no_positions_are_an_empty_text() -> None:
    assert encode_ack_bits([]) == ""
    assert decode_ack_bits("") == []


def test_trailing_zero_bytes_add_nothing() -> None:
    assert decode_ack_bits("AQAA") == [0]


def test_positions_have_a_limit_in_both_directions() -> None:
    longest = encode_ack_bits([ACK_POSITION_MAX])
    assert decode_ack_bits(longest) == [ACK_POSITION_MAX]
    for position in (-1, ACK_POSITION_MAX + 1):
        with pytest.raises(ProtocolError):
            encode_ack_bits([position])
    with pytest.raises(ProtocolError):
        decode_ack_bits("AAAA" + longest)


@pytest.mark.parametrize("text", ["A", "é", "\ud800", "****", "CQE"])
def test_text_that_is_not_base64_is_a_protocol_error(text: str) -> None:
    with pytest.raises(ProtocolError):
        decode_ack_bits(text)


RECEIPT = PopReceipt(10, 1700000000000, 60000, 3, PopTopicKind.RETRY_V2, "brk-a", 2, 12)


def test_a_receipt_is_its_parts_separated_by_spaces() -> None:
    assert RECEIPT.encode() == "10 1700000000000 60000 3 2 brk-a 2 12"
    assert PopReceipt.decode(RECEIPT.encode()) == RECEIPT


def test_a_receipt_may_end_before_or_after_the_queue_offset() -> None:
    short = PopReceipt.decode("10 1700000000000 60000 999 0 brk-a 2")
    assert (short.queue_offset, short.is_ordered) == (None, True)
    assert short.encode() == "10 1700000000000 60000 999 0 brk-a 2"
    long = PopReceipt.decode("10 1700000000000 60000 3 1 brk-a 2 12 4096")
    assert (long.commit_log_offset, long.is_ordered) == (4096, False)
    assert long.encode().endswith(" 2 12 4096")


@pytest.mark.parametrize(
    "text",
    ["", "1 2 3", "1 2 3 4 0 b x", "1 2 3 4 7 b 5", "1 2 3 4 0  b 5", "a 2 3 4 0 b 5 6"],
)
def test_a_torn_receipt_is_a_protocol_error(text: str) -> None:
    with pytest.raises(ProtocolError):
        PopReceipt.decode(text)
