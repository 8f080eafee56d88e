import sys
import zlib

import pytest

from emberq.errors import CompressionUnavailable, RecordError
from emberq.record.compression import compress, decompress
from emberq.record.system_flag import CompressionType
from tests.golden.record.vectors import OFFICIAL_5_5_0

KINDS = list(CompressionType)
PLAIN = b"EmberQ " * 40
MIB = 1024 * 1024


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_compressed_by_the_official_client_are_read(kind: CompressionType) -> None:
    stored = bytes.fromhex(OFFICIAL_5_5_0[f"body-{kind.name.lower()}"])

    assert decompress(stored, kind) == PLAIN
    assert decompress(memoryview(stored), kind) == PLAIN


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [1, 5, 9])
def test_what_is_compressed_comes_back(kind: CompressionType, level: int) -> None:
    for plain in (b"", b"x", PLAIN, bytes(3 * MIB)):
        assert decompress(compress(plain, kind, level), kind) == plain
    assert decompress(compress(memoryview(PLAIN), kind), kind) == PLAIN


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_may_unfold_to_exactly_the_maximum(kind: CompressionType) -> None:
    stored = compress(bytes(2 * MIB), kind)

    assert len(decompress(stored, kind, 2 * MIB)) == 2 * MIB
    with pytest.raises(RecordError, match=str(2 * MIB - 1)):
        decompress(stored, kind, 2 * MIB - 1)


def test_a_zstd_body_that_hides_its_size_is_bounded_too() -> None:
    import zstandard

    stream = zstandard.ZstdCompressor().compressobj()
    stored = stream.compress(bytes(2 * MIB)) + stream.flush()

    assert len(decompress(stored, CompressionType.ZSTD, 2 * MIB)) == 2 * MIB
    with pytest.raises(RecordError):
        decompress(stored, CompressionType.ZSTD, 2 * MIB - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_a_record_error(kind: CompressionType) -> None:
    stored = bytes.fromhex(OFFICIAL_5_5_0[f"body-{kind.name.lower()}"])

    for size in range(len(stored)):
        with pytest.raises(RecordError):
            decompress(stored[:size], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_were_never_compressed_are_a_record_error(kind: CompressionType) -> None:
    with pytest.raises(RecordError):
        decompress(b"plain text, not compressed", kind)


def test_zlib_streams_carry_their_header() -> None:
    assert zlib.decompress(compress(PLAIN, CompressionType.ZLIB)) == PLAIN


@pytest.mark.parametrize(
    ("kind", "module"), [(CompressionType.LZ4, "lz4.frame"), (CompressionType.ZSTD, "zstandard")]
)
def test_a_missing_codec_names_the_extra_that_brings_it(
    kind: CompressionType, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(CompressionUnavailable, match=r'pip install "emberq\[compression\]"'):
        decompress(b"", kind)
    with pytest.raises(CompressionUnavailable, match=kind.name):
        compress(b"", kind)
