"""Records of the log one after the other, each checked, many per call."""

from struct import Struct as Layout
from typing import Any
from zlib import crc32

from msgspec import Struct

from emberq.kernel.stored_properties import find_keys, find_tags, find_unique_key
from emberq.record.layout import IPV4_HOST_SIZE, IPV6_HOST_SIZE, MAGIC_V1, MAGIC_V2
from emberq.record.system_flag import BORN_HOST_IPV6, HOSTS_IPV6_MASK, STORE_HOST_IPV6

# Size, magic, CRC, queue id, (flag), queue offset, log offset, system flag, (born time and host),
# store time, (store host, reconsume times, prepared offset), body length.
_HEADS = {
    (born, store): Layout(f">iIIi4xqqi{8 + born}xq{store + 12}xi")
    for born in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
    for store in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
}
_HEAD = _HEADS[IPV4_HOST_SIZE, IPV4_HOST_SIZE]
_SHORT = Layout(">H")
_CRC_MASK = 0x7FFFFFFF
_MAGICS = (MAGIC_V1, MAGIC_V2)


class ScannedRecord(Struct, frozen=True, gc=False):
    """A record of the log; where its properties lie in the segment's view."""

    log_offset: int
    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    system_flag: int
    stored_at_ms: int
    view: memoryview
    properties_at: int
    properties_end: int

    @property
    def properties(self) -> bytes:
        return bytes(self.view[self.properties_at : self.properties_end])


def scan_records(
    view: memoryview, position: int, base: int, room: int, is_crc_checked: bool, count_max: int
) -> tuple[list[ScannedRecord], int, bool, str | None]:
    """Up to `count_max` records of a segment that begins at log offset `base`.

    Returns them, the position behind them, whether the walk ends there, and what is wrong with
    the record there if its head is right. Written for speed: a store that was not closed waits
    for this loop.
    """
    records: list[ScannedRecord] = []
    unpack_head, head_size = _HEAD.unpack_from, _HEAD.size
    last_head = room - head_size
    while position <= last_head and len(records) < count_max:
        (
            size,
            magic,
            crc,
            queue_id,
            queue_offset,
            log_offset,
            system_flag,
            stored_at_ms,
            body_size,
        ) = unpack_head(view, position)
        end = position + size
        if log_offset != base + position or end > room or magic not in _MAGICS:
            return records, position, True, None
        body_at = position + head_size
        if system_flag & HOSTS_IPV6_MASK:
            layout = _layout_of(system_flag)
            body_at = position + layout.size
            if body_at > room:
                return records, position, True, None
            *_, stored_at_ms, body_size = layout.unpack_from(view, position)
        body_end = body_at + body_size
        if body_size < 0 or body_end + 3 > end:
            return records, position, True, f"a body of {body_size} bytes does not fit"
        if is_crc_checked and body_size and crc32(view[body_at:body_end]) & _CRC_MASK != crc:
            return records, position, True, "the checksum of the body is wrong"
        if magic == MAGIC_V1:
            topic_at = body_end + 1
            topic_end = topic_at + view[body_end]
        else:
            topic_at = body_end + 2
            topic_end = topic_at + _SHORT.unpack_from(view, body_end)[0]
        if topic_end + 2 > end or topic_end + 2 + _SHORT.unpack_from(view, topic_end)[0] != end:
            return records, position, True, f"its lengths do not add up to {size}"
        records.append(
            ScannedRecord(
                log_offset,
                size,
                bytes(view[topic_at:topic_end]),
                queue_id,
                queue_offset,
                system_flag,
                stored_at_ms,
                view,
                topic_end + 2,
                end,
            )
        )
        position = end
    return records, position, position > last_head, None


def indexed_properties(
    view: memoryview, start: int, end: int
) -> tuple[str | None, str | None, str | None]:
    """Unique key, keys and tags of the properties that lie there."""
    properties = bytes(view[start:end])
    return find_unique_key(properties), find_keys(properties), find_tags(properties)


def _layout_of(system_flag: int) -> Any:
    return _HEADS[
        IPV6_HOST_SIZE if system_flag & BORN_HOST_IPV6 else IPV4_HOST_SIZE,
        IPV6_HOST_SIZE if system_flag & STORE_HOST_IPV6 else IPV4_HOST_SIZE,
    ]
