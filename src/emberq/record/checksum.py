"""The checksum that records and registrations carry."""

from zlib import crc32

from emberq.record.layout import BytesLike


def crc31(content: BytesLike) -> int:
    """CRC-32 without its top bit: official software keeps checksums in signed integers."""
    return crc32(content) & 0x7FFF_FFFF
