"""The optional checksum over a whole record, kept in its last property (official brokers ≥ 5.2.0).

Off by default there and here. The last 20 bytes of the record are `__CRC32# 01`, ten digits and 02.
The format is docs/formats/properties.md.
"""

from emberq.record.checksum import crc31
from emberq.record.layout import BytesLike
from emberq.record.properties import join_properties
from emberq.record.property_names import RECORD_CRC

PROPERTY_CRC_SIZE = 20

_NAME = RECORD_CRC.encode() + b"\x01"
_DIGIT_COUNT = 10


def reserve_property_crc(properties: bytes) -> bytes:
    """Return the properties with room for the checksum; one that a client sent is dropped."""
    kept = properties
    if _NAME in properties:
        kept = b"\x02".join(
            item for item in properties.split(b"\x02") if not item.startswith(_NAME)
        )
    return join_properties(kept, format_property_crc(0))


def fill_property_crc(record: bytearray | memoryview) -> None:
    """Write the checksum of a record into its reserved end.

    Call it last: the checksum covers the offsets and the store timestamp too.
    """
    with memoryview(record) as view:
        covered = len(view) - PROPERTY_CRC_SIZE
        view[covered:] = format_property_crc(crc31(view[:covered]))


def with_property_crc(record: BytesLike) -> bytearray:
    """Return a finished record, whose end is reserved, with its checksum."""
    filled = bytearray(record)
    fill_property_crc(filled)
    return filled


def has_valid_property_crc(record: BytesLike) -> bool:
    """Whether the record ends in a checksum and is what the checksum was made of."""
    with memoryview(record) as view:
        covered = len(view) - PROPERTY_CRC_SIZE
        return covered >= 0 and view[covered:] == format_property_crc(crc31(view[:covered]))


def format_property_crc(checksum: int) -> bytes:
    """Return the 20 bytes; the digits run from the least significant to the most."""
    digits = str(checksum)[::-1].ljust(_DIGIT_COUNT, "0")
    return b"%b%b\x02" % (_NAME, digits.encode())
