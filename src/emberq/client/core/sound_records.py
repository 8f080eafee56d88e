"""Records of a pull answer without those whose bodies are not what was stored.

EmberQ's brokers check what they read from their log; official ones send it as it is.
"""

from struct import Struct as Layout

from emberq.errors import RecordError
from emberq.kernel import are_records_of
from emberq.record.checksum import crc31
from emberq.record.decode import decode_record
from emberq.record.layout import TOPIC_SIZE_MAX_V1

_PLACE = Layout(">i16xqq")  # size, (...), queue offset, log offset


def sound_records(content: bytes, queue_id: int, topic: str) -> tuple[bytes, tuple[int, ...]]:
    """The records, and the queue offsets of damaged ones, which are not among them.

    If all is well the bytes are the same object. What is no record is left in: whoever decodes it
    says so.
    """
    name = topic.encode()
    if len(name) <= TOPIC_SIZE_MAX_V1:
        part = bytes((len(name),)) + name
        if are_records_of(content, _places(content), queue_id, part, True):
            return content, ()
    kept: list[memoryview] = []
    damaged: list[int] = []
    view, at = memoryview(content), 0
    while at < len(view):
        try:
            record = decode_record(view, at, is_crc_checked=False)
        except RecordError:
            kept.append(view[at:])
            break
        end = at + record.size_bytes
        if not record.body or crc31(record.body) == record.body_crc:
            kept.append(view[at:end])
        else:
            damaged.append(record.queue_offset)
        at = end
    return (b"".join(kept), tuple(damaged)) if damaged else (content, ())


def _places(content: bytes) -> list[tuple[int, int, int]]:
    """What the records say of themselves: queue offsets, log offsets and sizes."""
    places: list[tuple[int, int, int]] = []
    at, last = 0, len(content) - _PLACE.size
    while at <= last:
        size, queue_offset, log_offset = _PLACE.unpack_from(content, at)
        if size <= 0:
            break
        places.append((queue_offset, log_offset, size))
        at += size
    return places
