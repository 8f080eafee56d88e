"""Whether bytes of the log are the records that queue entries lead to, many at a time."""

from struct import Struct as Layout
from zlib import crc32

from emberq.kernel.queue_entries import Wanted
from emberq.record.layout import MAGIC_V1, BytesLike
from emberq.record.system_flag import HOSTS_IPV6_MASK

# Size, magic, CRC, queue id, (flag), queue offset, log offset, system flag, (...), body length.
_HEAD = Layout(">iIIi4xqqi44xi")
_CRC_MASK = 0x7FFFFFFF
_ENTRY = Layout(">qi8x")  # of a consume queue: log offset, record size, (tag code)


def are_records_of(
    content: BytesLike, run: list[Wanted], queue_id: int, topic: bytes, is_crc_checked: bool
) -> bool:
    """Whether `content` begins with the common records of a run, one behind the other.

    `topic` is a topic as common records hold it, with its length. False also for records that are
    right but not common: version 2, or hosts of IPv6.
    """
    at = 0
    for queue_offset, log_offset, size in run:
        end = at + size
        if size < _HEAD.size or end > len(content):
            return False
        named_size, magic, crc, named_queue, named_offset, named_place, flag, body_size = (
            _HEAD.unpack_from(content, at)
        )
        if (
            named_size != size
            or magic != MAGIC_V1
            or named_queue != queue_id
            or named_offset != queue_offset
            or named_place != log_offset
            or flag & HOSTS_IPV6_MASK
        ):
            return False
        body_end = at + _HEAD.size + body_size
        topic_end = body_end + len(topic)
        if body_size < 0 or topic_end + 2 > end or content[body_end:topic_end] != topic:
            return False
        if int.from_bytes(content[topic_end : topic_end + 2], "big") != end - topic_end - 2:
            return False
        if (
            is_crc_checked
            and body_size
            and crc32(content[at + _HEAD.size : body_end]) & _CRC_MASK != crc
        ):
            return False
        at = end
    return True


def count_records_of(
    content: BytesLike,
    entries: bytes,
    first: int,
    queue_offset: int,
    queue_id: int,
    topic: bytes,
    is_crc_checked: bool,
) -> int:
    """How many entries, from the one with index `first` on, `content` holds the common records of,
    one behind the other and nothing else; 0 if anything differs. `queue_offset` is that entry's.
    """
    if first < 0:
        raise ValueError("before the first entry")
    run: list[Wanted] = []
    size_left = len(content)
    while size_left > 0:
        at = (first + len(run)) * _ENTRY.size
        if at + _ENTRY.size > len(entries):
            return 0
        log_offset, size = _ENTRY.unpack_from(entries, at)
        if size <= 0:
            return 0
        run.append((queue_offset + len(run), log_offset, size))
        size_left -= size
    return len(run) if are_records_of(content, run, queue_id, topic, is_crc_checked) else 0
