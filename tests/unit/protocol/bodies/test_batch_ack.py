"""Acknowledgements of several messages."""

import pytest

from emberq.errors import ProtocolError
from emberq.protocol.bodies.batch_ack import BatchAck, BatchAckEntry
from emberq.protocol.bodies.codec import decode_body, encode_body


def test_positions_count_from_the_start_offset() -> None:
    assert BatchAckEntry(start_offset=100, bits="CQE=").offsets() == [100, 103, 108]


def test_a_damaged_bit_set_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        BatchAckEntry(bits="?").offsets()


def test_short_and_long_names_are_read_and_short_ones_written() -> None:
    entry = BatchAckEntry(
        bits="CQE=",
        group="g",
        invisible_ms=1,
        popped_at_ms=2,
        queue_id=3,
        retry="0",
        revive_queue_id=4,
        start_offset=5,
        topic="t",
    )
    long_names = (
        b'{"acks":[{"bitSet":"CQE=","consumerGroup":"g","invisibleTime":1,"popTime":2,"queueId":3,'
        b'"retry":"0","reviveQueueId":4,"startOffset":5,"topic":"t"}]}'
    )
    short_names = (
        b'{"acks":[{"b":"CQE=","c":"g","it":1,"pt":2,"q":3,"r":"0","rq":4,"so":5,"t":"t"}]}'
    )

    assert decode_body(BatchAck, long_names) == BatchAck(entries=[entry])
    assert decode_body(BatchAck, short_names) == BatchAck(entries=[entry])
    assert encode_body(BatchAck(entries=[entry])) == short_names
