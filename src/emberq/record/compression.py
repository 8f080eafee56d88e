"""Compressed bodies: zlib is built in, LZ4 and ZSTD come with the `compression` extra.

Decompression stops at a maximum size, so a small body cannot unfold into all of the memory.
"""

import zlib
from typing import Any

from emberq.errors import CompressionUnavailable, RecordError
from emberq.record.layout import BytesLike
from emberq.record.system_flag import CompressionType

# Producers refuse plain bodies above 4 MiB unless told otherwise; this leaves room for clusters
# that raised the limit, and still bounds what one hostile message can cost.
DECOMPRESSED_SIZE_MAX = 64 * 1024 * 1024

COMPRESSION_LEVEL_DEFAULT = 5
COMPRESSION_LEVEL_MIN = 1
COMPRESSION_LEVEL_MAX = 9  # of zlib; ZSTD would take more, LZ4 has no levels on this wire

_LZ4_STEP_SIZE = 1024 * 1024  # the codec reserves what it may return, so ask in steps


def compress(
    body: BytesLike, kind: CompressionType, level: int = COMPRESSION_LEVEL_DEFAULT
) -> bytes:
    """Return the body compressed as official clients do it; LZ4 ignores the level.

    Raises:
        CompressionUnavailable: the codec is not installed.
    """
    assert COMPRESSION_LEVEL_MIN <= level <= COMPRESSION_LEVEL_MAX, level
    if kind is CompressionType.ZLIB:
        return zlib.compress(body, level)
    compressed: bytes
    if kind is CompressionType.LZ4:
        compressed = _lz4_frame().compress(bytes(body))
    else:
        compressed = _zstandard().ZstdCompressor(level=level).compress(body)
    return compressed


def decompress(
    body: BytesLike, kind: CompressionType, size_max: int = DECOMPRESSED_SIZE_MAX
) -> bytes:
    """Return the plain body.

    Raises:
        RecordError: the bytes are damaged, cut off, or unfold to more than `size_max`.
        CompressionUnavailable: the codec is not installed.
    """
    if kind is CompressionType.ZLIB:
        return _decompress_zlib(body, size_max)
    if kind is CompressionType.LZ4:
        return _decompress_lz4(body, size_max)
    return _decompress_zstd(body, size_max)


def _decompress_zlib(body: BytesLike, size_max: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One byte more than allowed tells "exactly the maximum" from "more than that".
        plain = stream.decompress(body, size_max + 1)
    except zlib.error as error:
        raise RecordError(f"damaged zlib body: {error}") from error
    return _whole(plain, stream.eof, size_max, "zlib")


def _decompress_lz4(body: BytesLike, size_max: int) -> bytes:
    frame = _lz4_frame()
    stream = frame.LZ4FrameDecompressor()
    plain = bytearray()
    unread = bytes(body)
    try:
        while not stream.eof and len(plain) <= size_max:
            step = stream.decompress(unread, max_length=_LZ4_STEP_SIZE)
            unread = b""
            plain += step
            if not step:
                break
    except (RuntimeError, MemoryError, ValueError) as error:
        raise RecordError(f"damaged LZ4 body: {error}") from error
    return _whole(bytes(plain), stream.eof, size_max, "LZ4")


def _decompress_zstd(body: BytesLike, size_max: int) -> bytes:
    zstandard = _zstandard()
    try:
        # An announced size is allocated before the first byte is read: look at it first.
        announced: int = zstandard.frame_content_size(body)
        if announced > size_max:
            raise RecordError(f"ZSTD body unfolds to {announced} bytes, at most {size_max}")
        plain: bytes = zstandard.ZstdDecompressor().decompress(body, max_output_size=size_max)
    except (zstandard.ZstdError, MemoryError) as error:
        raise RecordError(f"ZSTD body is damaged or above {size_max} bytes: {error}") from error
    return plain


def _whole(plain: bytes, is_complete: bool, size_max: int, codec: str) -> bytes:
    if len(plain) > size_max:
        raise RecordError(f"{codec} body unfolds to more than {size_max} bytes")
    if not is_complete:
        raise RecordError(f"{codec} body is cut off")
    return plain


def _lz4_frame() -> Any:
    try:
        # Optional, and few processes meet such a body; the package has no types.
        import lz4.frame  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise _unavailable("LZ4") from error
    return lz4.frame


def _zstandard() -> Any:
    try:
        import zstandard  # noqa: PLC0415  # optional, as above
    except ImportError as error:
        raise _unavailable("ZSTD") from error
    return zstandard


def _unavailable(codec: str) -> CompressionUnavailable:
    return CompressionUnavailable(
        f'{codec} bodies need an optional package: pip install "emberq[compression]"'
    )
