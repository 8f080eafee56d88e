"""Frames: the length-prefixed envelope around a command's header and body.

Layout (big-endian): total length (4), header encoding (1), header length (3), header, body; the
total does not count its own four bytes. See docs/formats/frame.md.
"""

from struct import Struct as Layout

from emberq.errors import FrameTooLarge, ProtocolError
from emberq.protocol.command import Command, HeaderEncoding, answer
from emberq.protocol.header_binary import decode_binary_header, encode_binary_header
from emberq.protocol.header_json import decode_json_header, encode_json_header

# Official peers hang up above 16 MiB, length word included.
FRAME_SIZE_MAX_BYTES = 16 * 1024 * 1024

_PREFIX = Layout("!II")  # total length; encoding in the high byte, header length below it
_HEADER_SIZE_MASK = 0x00FFFFFF
# The largest real header carries 32 KiB of properties. Parsed, a header takes many times its size
# in memory, so its own limit is far below a frame's.
HEADER_SIZE_MAX_BYTES = 2 * 1024 * 1024
_JSON, _BINARY = HeaderEncoding.JSON, HeaderEncoding.BINARY
_SUCCESS_HEADER = encode_json_header(answer(Command())).replace(b'"opaque":0', b'"opaque":%d')


def encode_head(command: Command) -> bytes:
    """All of a command's frame but its body, which the caller sends right behind it."""
    if command.encoding is _JSON:
        header, kind = encode_json_header(command), 0
    else:
        header, kind = encode_binary_header(command), 1 << 24
    header_size = len(header)
    if header_size > HEADER_SIZE_MAX_BYTES:
        raise FrameTooLarge(f"header of {header_size} bytes")
    return _PREFIX.pack(4 + header_size + len(command.body), kind | header_size) + header


def encode_frame(command: Command) -> bytes:
    return encode_head(command) + command.body


def success_frame(request: Command, body: bytes) -> bytes:
    """The bytes of `encode_frame(answer(request, body=body))`, in a quarter of its time."""
    if request.encoding is not _JSON:
        return encode_frame(answer(request, body=body))
    header = _SUCCESS_HEADER % request.opaque
    header_size = len(header)
    return _PREFIX.pack(4 + header_size + len(body), header_size) + header + body


def parse_frame(frame: bytes | memoryview) -> Command:
    """The command of one whole frame, length word included."""
    if len(frame) < _PREFIX.size:
        raise ProtocolError(f"frame torn after {len(frame)} bytes")
    size, kind = _PREFIX.unpack_from(frame)
    if len(frame) != 4 + size:
        raise ProtocolError(f"frame of {size} bytes in {len(frame) - 4}")
    return _parse(frame, 0, size, kind)


def _parse(buffer: bytes | memoryview, start: int, size: int, kind: int) -> Command:
    """The frame that begins at `start` and lies in the buffer as a whole."""
    header_start = start + 8
    header_end = header_start + (kind & _HEADER_SIZE_MASK)
    end = start + 4 + size
    if header_end > end or header_end - header_start > HEADER_SIZE_MAX_BYTES:
        raise ProtocolError(f"header of {header_end - header_start} bytes in a frame of {size}")
    encoding = kind >> 24
    if encoding == 0:
        command = decode_json_header(buffer[header_start:header_end])
        command.encoding = _JSON
    elif encoding == 1:
        command = decode_binary_header(buffer[header_start:header_end])
        command.encoding = _BINARY
    else:
        raise ProtocolError(f"unknown header encoding {encoding}")
    command.body = bytes(buffer[header_end:end]) if header_end < end else b""
    return command


class FrameDecoder:
    """Feed it bytes as they arrive, then take the commands they complete, one at a time.

    A frame that lies within one read is parsed where it lies; only one that spans reads is
    gathered in a buffer, which grows with what really arrived, not with what was announced.
    """

    __slots__ = ("_chunk", "_partial", "_position", "_size_max", "_wanted")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX_BYTES) -> None:
        self._size_max = frame_size_max - 4  # as frames announce it: without the length word
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
        chunk, start = self._chunk, self._position
        available = len(chunk) - start
        if self._partial or available < 8:
            if not available:
                return None
            frame = self._gathered_frame()
            return None if frame is None else parse_frame(memoryview(frame))
        size, kind = _PREFIX.unpack_from(chunk, start)
        if not 4 <= size <= self._size_max:
            raise self._refusal(size)
        if available < 4 + size:
            self._wanted = 4 + size
            self._gather(available)
            return None
        end = start + 4 + size
        if available > 4 + size:
            self._position = end
        else:
            self._chunk, self._position = b"", 0  # a read that is used up must not be held
        header_end = start + 8 + kind
        if header_end > end or kind > HEADER_SIZE_MAX_BYTES:  # also every other encoding
            return _parse(chunk, start, size, kind)
        command = decode_json_header(chunk[start + 8 : header_end])
        command.body = chunk[header_end:end]
        return command

    def _gathered_frame(self) -> bytearray | None:
        """A frame that spans reads, once its last byte is here."""
        partial = self._partial
        if not self._wanted:
            self._gather(8 - len(partial))
            if len(partial) < 8:
                return None
            size = int.from_bytes(partial[:4], "big")
            if not 4 <= size <= self._size_max:
                raise self._refusal(size)
            self._wanted = 4 + size
        self._gather(self._wanted - len(partial))
        if len(partial) < self._wanted:
            return None
        self._partial = bytearray()
        self._wanted = 0
        return partial

    def _gather(self, count: int) -> None:
        """Move up to `count` bytes from the chunk to the partial frame."""
        taken = memoryview(self._chunk)[self._position : self._position + count]
        self._partial += taken
        self._position += len(taken)
        if self._position == len(self._chunk):
            self._chunk, self._position = b"", 0

    def _refusal(self, size: int) -> ProtocolError:
        # As an unsigned number a negative size is far above the limit too.
        if size > self._size_max:
            return FrameTooLarge(f"frame of {size} bytes, the limit is {self._size_max}")
        return ProtocolError(f"frame of {size} bytes")
