import pytest

from emberq.errors import RecordError
from emberq.record.host import pack_host
from emberq.record.system_flag import (
    CompressionType,
    TransactionType,
    compression_type,
    transaction_type,
    with_compression,
    with_host_bits,
    with_transaction_type,
    without_compression,
)

IPV4 = pack_host("10.0.0.1", 1)
IPV6 = pack_host("::1", 1)


def test_host_bits_follow_the_hosts_and_nothing_else() -> None:
    assert with_host_bits(0x30, IPV4, IPV4) == 0
    assert with_host_bits(0x00, IPV6, IPV4) == 0x10
    assert with_host_bits(0x10, IPV4, IPV6) == 0x20
    assert with_host_bits(0x701, IPV6, IPV6) == 0x731


def test_the_transaction_type_is_two_bits_among_others() -> None:
    assert transaction_type(0x701) is TransactionType.NONE
    assert transaction_type(0x0C | 0x731) is TransactionType.ROLLBACK
    assert with_transaction_type(0x335 | 0xC, TransactionType.COMMIT) == 0x339


@pytest.mark.parametrize(
    ("flag", "kind"),
    [
        (0x000, None),
        (0x300, None),
        (0x001, CompressionType.ZLIB),
        (0x101, CompressionType.LZ4),
        (0x201, CompressionType.ZSTD),
        (0x301, CompressionType.ZLIB),
    ],
)
def test_the_compression_type_counts_only_with_the_compressed_bit(
    flag: int, kind: CompressionType | None
) -> None:
    assert compression_type(flag) is kind


def test_an_unknown_compression_type_is_a_record_error() -> None:
    with pytest.raises(RecordError, match="type 4"):
        compression_type(0x401)


def test_zlib_is_marked_as_clients_since_4_9_4_do() -> None:
    assert with_compression(0, CompressionType.ZLIB) == 0x301
    assert with_compression(0x331, CompressionType.LZ4) == 0x131


def test_decompression_clears_the_compressed_bit_alone() -> None:
    assert without_compression(0x331) == 0x330
