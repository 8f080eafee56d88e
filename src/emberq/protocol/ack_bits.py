"""The bit set of a batch acknowledgement: which messages, counted from the first of a pop."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Final

from emberq.errors import ProtocolError

# One pop takes at most 32 messages, but the filter may have skipped thousands between them.
ACK_POSITION_MAX: Final = (1 << 16) - 1
_SIZE_BYTES_MAX: Final = (ACK_POSITION_MAX + 1) // 8


def encode_ack_bits(positions: Iterable[int]) -> str:
    """Base64 of bytes in which position 8·i + j is bit j, lowest first, of byte i."""
    bits = 0
    for position in positions:
        if not 0 <= position <= ACK_POSITION_MAX:
            raise ProtocolError(f"position {position} is outside of 0…{ACK_POSITION_MAX}")
        bits |= 1 << position
    return b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode("ascii")


def decode_ack_bits(text: str) -> list[int]:
    """The positions in ascending order; raises ProtocolError for anything but a bit set."""
    try:
        content = b64decode(text, validate=True)
    except ValueError:
        raise ProtocolError("the acknowledged positions are not Base64 text") from None
    if len(content) > _SIZE_BYTES_MAX:
        raise ProtocolError(f"a bit set of {len(content)} bytes")
    return [
        8 * index + bit
        for index, byte in enumerate(content)
        if byte
        for bit in range(8)
        if byte >> bit & 1
    ]
