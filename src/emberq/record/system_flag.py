"""The bits of a record's system flag.

Plain numbers, because records of later versions may set bits we do not know and must keep.
"""

from enum import IntEnum

from emberq.errors import RecordError
from emberq.record.layout import IPV4_HOST_SIZE

COMPRESSED = 0x1
MULTI_TAGS = 0x2  # legacy; never changes how a tag is hashed
TRANSACTION_MASK = 0xC
BORN_HOST_IPV6 = 0x10
STORE_HOST_IPV6 = 0x20
HOSTS_IPV6_MASK = BORN_HOST_IPV6 | STORE_HOST_IPV6
NEEDS_UNWRAP = 0x40  # the body is a batch that the client takes apart
INNER_BATCH = 0x80  # one record stands for a whole batch
COMPRESSION_MASK = 0x700
COMPRESSION_SHIFT = 8


class TransactionType(IntEnum):
    """Which part of a transaction a record is."""

    NONE = 0x0
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC


class CompressionType(IntEnum):
    """How a body is compressed."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def with_host_bits(system_flag: int, born_host: bytes, store_host: bytes) -> int:
    """Set the IPv6 bits from the hosts that are really written.

    Bits that came with a request are dropped: official brokers keep them, and a record whose bits
    contradict its hosts shifts every field that follows.
    """
    system_flag &= ~HOSTS_IPV6_MASK
    if len(born_host) != IPV4_HOST_SIZE:
        system_flag |= BORN_HOST_IPV6
    if len(store_host) != IPV4_HOST_SIZE:
        system_flag |= STORE_HOST_IPV6
    return system_flag


def transaction_type(system_flag: int) -> TransactionType:
    """Return which part of a transaction the record is."""
    return TransactionType(system_flag & TRANSACTION_MASK)


def with_transaction_type(system_flag: int, kind: TransactionType) -> int:
    """Return the flag with another transaction type."""
    return system_flag & ~TRANSACTION_MASK | kind


def compression_type(system_flag: int) -> CompressionType | None:
    """Return how the body is compressed, or None for a plain body.

    Raises:
        RecordError: the flag names a compression that does not exist.
    """
    if not system_flag & COMPRESSED:
        return None
    # Producers before 4.9.4 set no type: they knew zlib only.
    number = (system_flag & COMPRESSION_MASK) >> COMPRESSION_SHIFT or CompressionType.ZLIB
    try:
        return CompressionType(number)
    except ValueError as error:
        raise RecordError(f"unknown compression type {number}") from error


def with_compression(system_flag: int, kind: CompressionType) -> int:
    """Mark the body as compressed, the way clients since 4.9.4 do it (zlib gives 0x301)."""
    return system_flag & ~COMPRESSION_MASK | COMPRESSED | kind << COMPRESSION_SHIFT


def without_compression(system_flag: int) -> int:
    """Mark the body as plain after decompression; like the 5.5.0 client, the type bits stay."""
    return system_flag & ~COMPRESSED
