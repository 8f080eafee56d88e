"""A half queue on a real store, with a clock that is set by hand."""

from emberq.broker.transactions.half_queue import HalfQueue
from emberq.record.decode import decode_record
from emberq.record.properties import decode_properties
from emberq.record.record import Record
from emberq.store.results import PutStatus
from tests.unit.broker.sending import Sending

PREPARED = {"TRAN_MSG": "true", "PGROUP": "PG"}


def send_half(broker: Sending, body: bytes = b"half", **properties: str) -> Record:
    """Send one as a producer does, and read what was stored."""
    fields = {"g": str(broker.clock.now_ms)}
    response = broker.send(
        body=body, properties={**PREPARED, **properties}, system_flag=4, queue_id=2, **fields
    )
    return broker.record_of(response)


def end(halves: HalfQueue, half: Record, *, is_commit: bool = True) -> PutStatus:
    return halves.end(half, decode_properties(half.properties), is_commit=is_commit)


def half_at(broker: Sending, log_offset: int) -> Record:
    content = broker.store.record_at(log_offset)
    assert content is not None
    return decode_record(content)
