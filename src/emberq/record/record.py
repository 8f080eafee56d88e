"""One message record as values: what `decode` returns."""

from msgspec import Struct

from emberq.record.host import PackedHost


# Built by position and outside the garbage collector: both are measurable when a pull answer of
# thousands of records is read, and no field can take part in a cycle.
class Record(Struct, frozen=True, gc=False):
    """A stored message; the fields stand in the order of docs/formats/record.md.

    The body is as stored, possibly compressed. It is a view of the bytes that were decoded when
    those were a memoryview, and empty when only the head was asked for.
    """

    size_bytes: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    log_offset: int
    system_flag: int
    born_at_ms: int
    born_host: PackedHost
    stored_at_ms: int
    store_host: PackedHost
    reconsume_times: int
    prepared_offset: int
    body: bytes | memoryview
    topic: str
    properties: bytes
