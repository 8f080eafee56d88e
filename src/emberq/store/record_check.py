"""Whether the bytes that a queue entry leads to are the record that it means."""

from struct import Struct as Layout
from zlib import crc32

from emberq.errors import RecordError
from emberq.record.decode import decode_record
from emberq.record.layout import MAGIC_V1, PREFIX_IPV4, BytesLike
from emberq.record.system_flag import HOSTS_IPV6_MASK
from emberq.store.consume_queue import ConsumeQueue

# Size, magic, CRC, queue id, (flag), queue offset, log offset, system flag, (...), body length.
_HEAD = Layout(">iIIi4xqqi44xi")
assert _HEAD.size == PREFIX_IPV4.size
_CRC_MASK = 0x7FFFFFFF


def is_record_of(
    queue: ConsumeQueue,
    queue_offset: int,
    log_offset: int,
    content: BytesLike,
    *,
    is_crc_checked: bool,
) -> bool:
    """Whether `content` is one record, and that of the queue's entry. Fast for common records."""
    if len(content) < _HEAD.size:
        return False
    size, magic, crc, queue_id, named_queue_offset, named_log_offset, system_flag, body_size = (
        _HEAD.unpack_from(content)
    )
    if (
        size != len(content)
        or queue_id != queue.queue_id
        or named_queue_offset != queue_offset
        or named_log_offset != log_offset
    ):
        return False
    topic = queue.topic_part
    if topic is None or magic != MAGIC_V1 or system_flag & HOSTS_IPV6_MASK:
        return _is_uncommon_record_of(queue, content, is_crc_checked=is_crc_checked)
    body_end = _HEAD.size + body_size
    topic_end = body_end + len(topic)
    if body_size < 0 or content[body_end:topic_end] != topic or topic_end + 2 > size:
        return False
    if int.from_bytes(content[topic_end : topic_end + 2], "big") != size - topic_end - 2:
        return False
    return (
        not is_crc_checked
        or not body_size
        or crc32(content[_HEAD.size : body_end]) & _CRC_MASK == crc
    )


def _is_uncommon_record_of(
    queue: ConsumeQueue, content: BytesLike, *, is_crc_checked: bool
) -> bool:
    try:
        record = decode_record(memoryview(content), is_crc_checked=is_crc_checked)
    except RecordError:
        return False
    return record.topic == queue.topic
