"""Frames: the length-prefixed envelope around a command's header and body.

Layout (big-endian): total length (4), header encoding (1), header length (3), header, body; the
total does not count its own four bytes. See docs/formats/frame.md.
"""

from struct import Struct as Layout

from emberq.errors import FrameTooLarge, ProtocolError
from emberq.protocol.command import Command, HeaderEncoding
from emberq.protocol.header_binary import decode_binary_header, encode_binary_header
from emberq.protocol.header_json import decode_json_header, encode_json_header

# Official peers hang up above 16 MiB, length word included.
FRAME_SIZE_MAX_BYTES = 16 * 1024 * 1024

_PREFIX = Layout("!iI")  # total length; encoding in the high byte, header length below it
_HEADER_SIZE_MASK = 0x00FFFFFF
_JSON, _BINARY = HeaderEncoding.JSON, HeaderEncoding.BINARY


def encode_head(command: Command) -> bytes:
    """All of a command's frame but its body, which the caller sends right behind it."""
    if command.encoding is _JSON:
        header, kind = encode_json_header(command), 0
    else:
        header, kind = encode_binary_header(command), 1 << 24
    header_size = len(header)
    if header_size > _HEADER_SIZE_MASK:
        raise FrameTooLarge(f"header of {header_size} bytes")
    return _PREFIX.pack(4 + header_size + len(command.body), kind | header_size) + header


def encode_frame(command: Command) -> bytes:
    return encode_head(command) + command.body


def parse_frame(frame: bytes | memoryview) -> Command | None:
    """One whole frame, length word included; None for the empty frame that peers ignore."""
    if len(frame) < _PREFIX.size:
        raise ProtocolError(f"frame torn after {len(frame)} bytes")
    size, kind = _PREFIX.unpack_from(frame)
    if len(frame) != 4 + size:
        raise ProtocolError(f"frame of {size} bytes in {len(frame) - 4}")
    header_size = kind & _HEADER_SIZE_MASK
    header_end = 8 + header_size
    if header_end > 4 + size:
        raise ProtocolError(f"header of {header_size} bytes in a frame of {size}")
    encoding = kind >> 24
    if encoding == 0:
        if header_size == 0 and size == 4:
            return None
        command = decode_json_header(frame[8:header_end])
        command.encoding = _JSON
    elif encoding == 1:
        command = decode_binary_header(frame[8:header_end])
        command.encoding = _BINARY
    else:
        raise ProtocolError(f"unknown header encoding {encoding}")
    command.body = bytes(frame[header_end:])
    return command


class FrameDecoder:
    """Feed it bytes as they arrive, then take the commands they complete, one at a time.

    A frame that lies within one read is parsed where it lies; only one that spans reads is
    gathered in a buffer, which grows with what really arrived, not with what was announced.
    """

    __slots__ = ("_chunk", "_frame_size_max", "_partial", "_position", "_wanted")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX_BYTES) -> None:
        self._frame_size_max = frame_size_max
        self._chunk: bytes = b""
        self._position = 0
        self._partial = bytearray()  # the beginning of a frame from earlier reads
        self._wanted = 0  # whole size of that frame, 0 while its length word is not complete

    @property
    def partial_size(self) -> int:
        """Bytes held of a frame that is not complete yet."""
        return len(self._partial)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes; all commands of the previous ones must have been taken."""
        if self._position < len(self._chunk):
            chunk = self._chunk[self._position :] + chunk
        self._chunk = chunk
        self._position = 0

    def next(self) -> Command | None:
        """The next complete command, or None when more bytes are needed.

        Raises:
            ProtocolError: the stream makes no sense from here on.
        """
        while True:
            frame = self._next_frame()
            if frame is None:
                return None
            command = parse_frame(frame)
            if command is not None:
                return command

    def _next_frame(self) -> bytes | memoryview | None:
        if self._partial:
            return self._complete_partial()
        chunk, start = self._chunk, self._position
        available = len(chunk) - start
        if available >= 8:
            whole = 4 + self._checked_size(int.from_bytes(chunk[start : start + 4], "big"))
            if available >= whole:
                self._position = start + whole
                if start == 0 and available == whole:
                    return chunk
                return chunk[start : start + whole]
            self._wanted = whole
        if available:
            self._partial += memoryview(chunk)[start:]
            if available < 8:
                self._wanted = 0
        self._chunk, self._position = b"", 0
        return None

    def _complete_partial(self) -> bytes | None:
        partial = self._partial
        if not self._wanted:
            self._move(8 - len(partial))
            if len(partial) < 8:
                return None
            self._wanted = 4 + self._checked_size(int.from_bytes(partial[:4], "big"))
        self._move(self._wanted - len(partial))
        if len(partial) < self._wanted:
            self._chunk, self._position = b"", 0  # all of it was taken
            return None
        frame = bytes(partial)
        partial.clear()
        self._wanted = 0
        return frame

    def _move(self, count: int) -> None:
        """Move up to `count` bytes from the chunk to the partial frame."""
        taken = self._chunk[self._position : self._position + count]
        self._partial += taken
        self._position += len(taken)

    def _checked_size(self, size: int) -> int:
        # As an unsigned number a negative size is far above the limit too.
        if size + 4 > self._frame_size_max:
            raise FrameTooLarge(f"frame of {size} bytes, the limit is {self._frame_size_max}")
        if size < 4:
            raise ProtocolError(f"frame of {size} bytes")
        return size
