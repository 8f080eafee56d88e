"""Frames: the length-prefixed envelope around a command's header and body.

Layout (big-endian): total length (4), header encoding (1), header length (3), header, body; the
total does not count its own four bytes. See docs/formats/frame.md.
"""

from collections.abc import Callable
from struct import Struct as Layout

from emberq.errors import FrameTooLarge, ProtocolError
from emberq.kernel import BytesInMaking
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
# Shorter pieces of a frame are put together as they come: a peer that sends byte by byte must not
# make us hold an object for each.
PIECE_SIZE_MIN_BYTES = 4096
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


def lone_command(chunk: bytes, size_max: int = FRAME_SIZE_MAX_BYTES) -> Command | None:
    """The command of bytes that are exactly one frame with a JSON header; None: they are not.

    Raises:
        ProtocolError: they are, and the header makes no sense.
    """
    if not 8 <= len(chunk) <= size_max:
        return None
    size, kind = _PREFIX.unpack_from(chunk)
    header_end = 8 + kind  # far away for every other encoding
    if 4 + size != len(chunk) or header_end > len(chunk) or kind > HEADER_SIZE_MAX_BYTES:
        return None
    command = decode_json_header(chunk[8:header_end])
    command.body = chunk[header_end:]
    return command


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


def _parse_pieces(pieces: list[bytes | bytearray]) -> Command:
    """The command of one whole frame; a large body is copied but once."""
    first = pieces[0]
    header_end = 8 + int.from_bytes(first[4:8], "big")  # far away for every other encoding
    if header_end > len(first) or header_end > 8 + HEADER_SIZE_MAX_BYTES:
        return parse_frame(b"".join(pieces))
    command = decode_json_header(bytes(first[8:header_end]))
    command.body = b"".join((first[header_end:], *pieces[1:]))
    return command


class BodyInMaking:
    """The large body of a command, the rest of which is received where it will stay."""

    __slots__ = ("_body", "_command", "received_size")

    def __init__(self, command: Command, size: int, begin: bytes | bytearray) -> None:
        self._command = command
        self._body = BytesInMaking(size)
        self.received_size = len(begin)
        memoryview(self._body)[: len(begin)] = begin

    @property
    def room(self) -> memoryview:
        """Where the next bytes go."""
        return memoryview(self._body)[self.received_size :]

    def finish(self, count: int) -> Command | None:
        """So many bytes more are there: the command if these were the last."""
        self.received_size += count
        if self.received_size < len(self._body):
            return None
        command = self._command
        command.body = self._body.finished()
        # The transport may hold this object for as long as it lives.
        self._command, self._body = Command(), BytesInMaking(0)
        return command


class FrameDecoder:
    """Feed it bytes as they arrive, then take the commands they complete, one at a time.

    A frame that lies within one read is parsed where it lies. Of one that spans reads the pieces
    are kept as they came and joined once; what is held is what really arrived, not what was
    announced.
    """

    __slots__ = ("_chunk", "_pieces", "_position", "_size_max", "_wanted", "partial_size")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX_BYTES) -> None:
        self._size_max = frame_size_max - 4  # as frames announce it: without the length word
        self._chunk: bytes = b""
        self._position = 0
        self._pieces: list[bytes | bytearray] = []  # of a frame that earlier reads began
        self._wanted = 0  # whole size of that frame, 0 while its length word is not complete
        self.partial_size = 0  # bytes held of a frame that is not complete yet

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
        if self._pieces or available < 8:
            return self._gathered_frame() if available else None
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

    def _gathered_frame(self) -> Command | None:
        """A frame that spans reads, once its last byte is here."""
        if not self._wanted:
            self._gather(8 - self.partial_size)
            if self.partial_size < 8:
                return None
            head = b"".join(self._pieces)
            self._pieces = [head]
            size = int.from_bytes(head[:4], "big")
            if not 4 <= size <= self._size_max:
                raise self._refusal(size)
            self._wanted = 4 + size
        self._gather(self._wanted - self.partial_size)
        if self.partial_size < self._wanted:
            return None
        pieces, self._pieces = self._pieces, []
        self._wanted = self.partial_size = 0
        return _parse_pieces(pieces)

    def take_large(
        self, missing_min: int, is_awaited: Callable[[int], bool]
    ) -> BodyInMaking | None:
        """Hand the answer that is not complete over to the caller, who receives the rest of it;
        None if less than so many bytes are missing, too little is here, or it is no answer to an
        opaque that somebody waits for. All that was fed must have been looked at."""
        pieces = self._pieces
        if not pieces or self._wanted - self.partial_size < missing_min:
            return None
        header_end = 8 + int.from_bytes(pieces[0][4:8], "big")  # far away for other encodings
        if header_end > min(len(pieces[0]), 8 + HEADER_SIZE_MAX_BYTES):
            return None
        command = decode_json_header(bytes(pieces[0][8:header_end]))
        if not (command.is_response and is_awaited(command.opaque)):
            return None
        begin = b"".join((pieces[0][header_end:], *pieces[1:]))
        body = BodyInMaking(command, self._wanted - header_end, begin)
        self._pieces = []
        self._wanted = self.partial_size = 0
        return body

    def _gather(self, count: int) -> None:
        """Move up to `count` bytes from the chunk to the pieces."""
        taken = self._chunk[self._position : self._position + count]
        pieces = self._pieces
        if len(taken) >= PIECE_SIZE_MIN_BYTES or not pieces:
            pieces.append(taken)
        elif isinstance(pieces[-1], bytearray):
            pieces[-1] += taken
        else:
            pieces.append(bytearray(taken))
        self.partial_size += len(taken)
        self._position += len(taken)
        if self._position == len(self._chunk):
            self._chunk, self._position = b"", 0

    def _refusal(self, size: int) -> ProtocolError:
        # As an unsigned number a negative size is far above the limit too.
        if size > self._size_max:
            return FrameTooLarge(f"frame of {size} bytes, the limit is {self._size_max}")
        return ProtocolError(f"frame of {size} bytes")
