from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.record.batch import BatchElement, encode_batch, iter_batch
from emberq.record.compression import compress, decompress
from emberq.record.decode import decode_record, iter_records
from emberq.record.encode import encode_record, place_record
from emberq.record.host import PackedHost, pack_host, unpack_host
from emberq.record.message_id import make_offset_id, parse_offset_id
from emberq.record.properties import (
    decode_properties,
    encode_properties,
    find_property,
    find_stored_property,
    format_properties,
    join_properties,
    parse_properties,
    remove_property,
)
from emberq.record.property_crc import (
    fill_property_crc,
    has_valid_property_crc,
    reserve_property_crc,
)
from emberq.record.record import Record
from emberq.record.string_hash import java_string_hash
from emberq.record.system_flag import HOSTS_IPV6_MASK, CompressionType

pytestmark = pytest.mark.property

INT_32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT_64 = st.integers(-(1 << 63), (1 << 63) - 1)
IPS = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)
PORTS = st.integers(0, 65535)
HOSTS = st.builds(pack_host, IPS, PORTS)
TOPICS = st.text(max_size=255).filter(lambda topic: len(topic.encode()) <= 255)

# Few different characters, so that separators, repeated names and empty parts are common.
PROPERTY_TEXTS = st.text(alphabet="ab\x01\x02é", max_size=30)
NAMES = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
VALUES = st.text(st.characters(exclude_characters="\x02", exclude_categories=["Cs"]), min_size=1)

RECORD_FIELDS = st.fixed_dictionaries(
    {
        "topic": TOPICS,
        "body": st.binary(max_size=200),
        "properties": st.binary(max_size=200),
        "queue_id": INT_32,
        "flag": INT_32,
        "queue_offset": INT_64,
        "log_offset": INT_64,
        "system_flag": INT_32,
        "born_at_ms": INT_64,
        "born_host": HOSTS,
        "stored_at_ms": INT_64,
        "store_host": HOSTS,
        "reconsume_times": INT_32,
        "prepared_offset": INT_64,
    }
)


def values_of(record: Record, names: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


@given(fields=RECORD_FIELDS, is_v2=st.booleans())
def test_a_record_is_read_as_it_was_written(fields: dict[str, Any], is_v2: bool) -> None:
    content = encode_record(**fields, is_v2=is_v2)

    record = decode_record(content)

    host_bits = record.system_flag & HOSTS_IPV6_MASK
    assert (host_bits & 0x10 != 0) == (len(record.born_host) == 20)
    assert (host_bits & 0x20 != 0) == (len(record.store_host) == 20)
    expected = fields | {"system_flag": fields["system_flag"] & ~HOSTS_IPV6_MASK | host_bits}
    assert values_of(record, fields) == expected
    assert record.size_bytes == len(content)
    assert decode_record(memoryview(content)) == record


@given(fields=RECORD_FIELDS, place=st.tuples(INT_64, INT_64, INT_64))
def test_a_record_placed_later_equals_one_encoded_in_place(
    fields: dict[str, Any], place: tuple[int, int, int]
) -> None:
    where = dict(zip(("queue_offset", "log_offset", "stored_at_ms"), place, strict=True))
    log = bytearray(b"\xff" * 3 + encode_record(**fields))

    place_record(log, 3, **where)

    assert log[3:] == encode_record(**(fields | where))


@given(st.lists(RECORD_FIELDS, max_size=4))
def test_concatenated_records_are_read_one_by_one(many: list[dict[str, Any]]) -> None:
    content = b"".join(encode_record(**fields) for fields in many)

    bodies = [record.body for record in iter_records(content)]

    assert bodies == [fields["body"] for fields in many]


@given(fields=RECORD_FIELDS, flipped=st.data())
def test_the_property_checksum_notices_any_flipped_bit(
    fields: dict[str, Any], flipped: st.DataObject
) -> None:
    fields["properties"] = reserve_property_crc(fields["properties"])
    record = bytearray(encode_record(**fields))
    fill_property_crc(record)
    assert has_valid_property_crc(record)

    record[flipped.draw(st.integers(0, len(record) - 1))] ^= 1 << flipped.draw(st.integers(0, 7))

    assert not has_valid_property_crc(record)


@given(st.lists(st.builds(BatchElement, st.binary(), st.binary(), INT_32), max_size=5))
def test_a_batch_is_read_as_it_was_written(elements: list[BatchElement]) -> None:
    content = encode_batch(elements)

    assert list(iter_batch(content)) == elements
    assert list(iter_batch(memoryview(content))) == elements


@given(properties=st.dictionaries(NAMES, VALUES), is_terminated=st.booleans())
def test_properties_are_read_as_they_were_written(
    properties: dict[str, str], is_terminated: bool
) -> None:
    text = format_properties(properties, is_terminated=is_terminated)

    assert parse_properties(text) == properties
    assert decode_properties(encode_properties(properties)) == properties
    for name, value in properties.items():
        assert find_property(text, name) == value


@given(PROPERTY_TEXTS)
def test_a_look_up_always_agrees_with_a_full_parse(text: str) -> None:
    properties = parse_properties(text)

    for name in ("a", "b", "ab", "é"):
        assert find_property(text, name) == properties.get(name)
        found = find_stored_property(text.encode(), name.encode())
        assert (found.decode() if found is not None else None) == properties.get(name)


@given(PROPERTY_TEXTS)
def test_removing_a_property_leaves_the_others_as_they_were(text: str) -> None:
    expected = {name: value for name, value in parse_properties(text).items() if name != "a"}

    assert parse_properties(remove_property(text, "a")) == expected


@given(PROPERTY_TEXTS, PROPERTY_TEXTS)
def test_joined_properties_are_both_read(first: str, second: str) -> None:
    joined = join_properties(first.encode(), second.encode())

    assert decode_properties(joined) == parse_properties(first) | parse_properties(second)


@given(host=HOSTS, log_offset=INT_64)
def test_an_offset_id_is_read_as_it_was_made(host: PackedHost, log_offset: int) -> None:
    assert parse_offset_id(make_offset_id(host, log_offset)) == (host, log_offset)


@given(ip=IPS, port=PORTS)
def test_a_host_is_read_as_it_was_packed(ip: str, port: int) -> None:
    packed = pack_host(ip, port)

    assert pack_host(*unpack_host(packed)) == packed


@given(st.text(st.characters(), max_size=600))
def test_the_string_hash_equals_its_definition(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    expected = 0
    for position in range(0, len(units), 2):
        expected = (31 * expected + int.from_bytes(units[position : position + 2], "big")) % 2**32

    assert java_string_hash(text) % 2**32 == expected
    assert -(2**31) <= java_string_hash(text) < 2**31


@given(body=st.binary(max_size=5000), kind=st.sampled_from(CompressionType))
def test_a_compressed_body_comes_back(body: bytes, kind: CompressionType) -> None:
    assert decompress(compress(body, kind), kind, len(body)) == body
