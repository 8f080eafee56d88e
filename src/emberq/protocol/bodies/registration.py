"""A broker's registration (103): its topic table, plain or packed.

The packed form is a zlib stream of length-prefixed parts: docs/formats/json-dialect.md.
"""

import zlib
from struct import Struct as Layout
from struct import error as LayoutError

from msgspec import Struct, field

from emberq.errors import ProtocolError
from emberq.model.data_version import DataVersion
from emberq.model.static_topic import StaticTopicMapping
from emberq.model.topic import TopicConfig, TopicFilterType
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.topics import TopicTable
from emberq.protocol.versions import CURRENT, V3_0_11, V5_0_0

# A full table of 10,000 topics unpacks to about 1 MiB.
UNPACKED_SIZE_MAX_BYTES = 64 * 1024 * 1024
COMPRESSION_LEVEL = 9
CHECKSUM_MASK = 0x7FFF_FFFF
CHECKSUM_ABSENT = 0

_LENGTH = Layout(">i")
_TOPIC_TEXT_ITEMS = 5  # name, read queues, write queues, permission, filter type


class RegisterBrokerBody(Struct, frozen=True, kw_only=True):
    """What a broker registers with. `filter_servers` is None where the broker said nothing of
    them: the name server then keeps what it knows."""

    filter_servers: list[str] | None = field(name="filterServerList", default_factory=list)
    topic_table: TopicTable = field(name="topicConfigSerializeWrapper", default_factory=TopicTable)


def checksum_matches(body: bytes | memoryview | None, checksum: int) -> bool:
    """Whether the body arrived as it was sent; brokers that send no checksum send 0."""
    return checksum == CHECKSUM_ABSENT or registration_checksum(body or b"") == checksum


def registration_checksum(body: bytes | memoryview) -> int:
    """The value of the header field `bodyCrc32` for these bytes, as sent."""
    return zlib.crc32(body) & CHECKSUM_MASK


def decode_registration(
    data: bytes | memoryview | None, *, is_compressed: bool, version: int
) -> RegisterBrokerBody:
    """Read the body of a broker of this version; no body means an empty table.

    Raises:
        ProtocolError: the body is damaged or unpacks past the limit.
    """
    if not data:
        return RegisterBrokerBody(filter_servers=None if version < V3_0_11 else [])
    if version < V3_0_11:
        return RegisterBrokerBody(filter_servers=None, topic_table=decode_body(TopicTable, data))
    if is_compressed:
        return _unpack(data, with_mappings=version >= V5_0_0)
    return decode_body(RegisterBrokerBody, data)


def encode_registration(
    body: RegisterBrokerBody, *, is_compressed: bool, version: int = CURRENT
) -> bytes:
    """Write a registration for a name server; `version` is the one in the command's header."""
    if version < V3_0_11:
        return encode_body(body.topic_table)
    if not is_compressed:
        return encode_body(body)
    return _pack(body, is_5x=version >= V5_0_0)


def _pack(body: RegisterBrokerBody, *, is_5x: bool) -> bytes:
    table = body.topic_table
    parts = [_prefixed(encode_body(table.data_version)), _LENGTH.pack(len(table.topics))]
    parts += [_prefixed(_topic_text(topic, is_5x)) for topic in table.topics.values()]
    parts.append(_prefixed(encode_body(body.filter_servers or [])))
    if is_5x:
        mappings = table.mappings or {}
        parts.append(_LENGTH.pack(len(mappings)))
        parts += [_prefixed(encode_body(mapping)) for mapping in mappings.values()]
    return zlib.compress(b"".join(parts), COMPRESSION_LEVEL)


def _unpack(data: bytes | memoryview, *, with_mappings: bool) -> RegisterBrokerBody:
    parts = _Parts(_inflate(data))
    data_version = decode_body(DataVersion, parts.next_part())
    topics = {}
    for _ in range(parts.next_count()):
        topic = _topic_from_text(parts.next_part())
        topics[topic.name] = topic
    filter_servers = decode_body(list[str], parts.next_part())
    mappings = None
    if with_mappings:
        mappings = {}
        for _ in range(parts.next_count()):
            mapping = decode_body(StaticTopicMapping, parts.next_part())
            mappings[mapping.topic or ""] = mapping
    return RegisterBrokerBody(
        filter_servers=filter_servers,
        topic_table=TopicTable(data_version=data_version, topics=topics, mappings=mappings),
    )


def _inflate(data: bytes | memoryview) -> bytes:
    stream = zlib.decompressobj()
    try:
        unpacked = stream.decompress(data, UNPACKED_SIZE_MAX_BYTES)
    except zlib.error as error:
        raise ProtocolError(f"registration is no zlib stream: {error}") from None
    if not stream.eof:
        raise ProtocolError("registration is cut off or unpacks past the limit")
    return unpacked


class _Parts:
    """Reads length-prefixed parts one after the other."""

    def __init__(self, unpacked: bytes) -> None:
        self._unpacked = unpacked
        self._at = 0

    def next_count(self) -> int:
        try:
            (count,) = _LENGTH.unpack_from(self._unpacked, self._at)
        except LayoutError:
            raise ProtocolError("registration ends early") from None
        self._at += _LENGTH.size
        if not 0 <= count <= len(self._unpacked) - self._at:
            raise ProtocolError(f"registration announces {count} where fewer can follow")
        return int(count)

    def next_part(self) -> bytes:
        size = self.next_count()
        part = self._unpacked[self._at : self._at + size]
        self._at += size
        return part


def _prefixed(part: bytes) -> bytes:
    return _LENGTH.pack(len(part)) + part


def _topic_text(topic: TopicConfig, is_5x: bool) -> bytes:
    items = [
        topic.name,
        str(topic.read_queue_count),
        str(topic.write_queue_count),
        str(topic.permission),
        topic.filter_type.name,
    ]
    if is_5x:
        items.append(encode_body(topic.attributes).decode("utf-8"))
    return " ".join(items).encode("utf-8")


def _topic_from_text(part: bytes) -> TopicConfig:
    try:
        items = part.decode("utf-8").split(" ", _TOPIC_TEXT_ITEMS)
        name, reads, writes, permission, filter_type = items[:_TOPIC_TEXT_ITEMS]
        attributes = "".join(items[_TOPIC_TEXT_ITEMS:])
        return TopicConfig(
            attributes=decode_body(dict[str, str], attributes.encode()) if attributes else {},
            permission=int(permission),
            read_queue_count=int(reads),
            filter_type=TopicFilterType(filter_type),
            name=name,
            write_queue_count=int(writes),
        )
    except ValueError:
        raise ProtocolError(f"registration has the topic text {part[:80]!r}") from None
