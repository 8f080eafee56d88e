import pytest

from emberq.record.decode import decode_record
from emberq.record.encode import place_record
from emberq.record.properties import decode_properties
from emberq.record.property_crc import (
    fill_property_crc,
    format_property_crc,
    has_valid_property_crc,
    reserve_property_crc,
)
from tests.golden.record.vectors import OFFICIAL_5_5_0
from tests.unit.record.test_encode import encode_golden


def test_digits_run_from_the_least_significant() -> None:
    assert format_property_crc(12) == b"__CRC32#\x012100000000\x02"
    assert format_property_crc(0x7FFF_FFFF) == b"__CRC32#\x017463847412\x02"


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("crc-terminated", b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02"),
        ("crc-unterminated", b"TAGS\x01TagA\x02KEYS\x01k1 k2"),
        ("crc-no-properties", b""),
        ("crc-terminated", b"TAGS\x01TagA\x02__CRC32#\x015\x02KEYS\x01k1 k2\x02"),
    ],
)
def test_the_checksum_of_a_record_is_that_of_5_5_0(name: str, properties: bytes) -> None:
    record = bytearray(encode_golden("TopicA", reserve_property_crc(properties), "ipv4", "ipv4"))

    fill_property_crc(record)

    assert record.hex().upper() == OFFICIAL_5_5_0[name]
    assert has_valid_property_crc(record)
    assert "__CRC32#" in decode_properties(decode_record(bytes(record)).properties)


def test_the_checksum_covers_what_the_writer_of_the_log_fills_in() -> None:
    record = bytearray.fromhex(OFFICIAL_5_5_0["crc-terminated"])

    place_record(record, 0, queue_offset=43, log_offset=1000, stored_at_ms=1_700_000_000_123)

    assert not has_valid_property_crc(record)


@pytest.mark.parametrize("record", [b"", bytes(19), bytes(20), b"x" * 200])
def test_a_record_without_the_checksum_is_not_valid(record: bytes) -> None:
    assert not has_valid_property_crc(record)
    assert not has_valid_property_crc(bytes.fromhex(OFFICIAL_5_5_0["v1-ipv4-ipv4"]))
