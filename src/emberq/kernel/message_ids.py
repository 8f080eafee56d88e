"""The ids of many messages, as answers to batches name them."""

from collections.abc import Sequence
from struct import Struct as Layout

_OFFSET = Layout(">Q")


def joined_ids(host: bytes, log_offsets: Sequence[int]) -> str:
    """Host and log offset of each message in capital hex digits, with commas between them."""
    pack = _OFFSET.pack
    packed = b"".join([host + pack(offset) for offset in log_offsets])
    return packed.hex(",", len(host) + _OFFSET.size).upper()
