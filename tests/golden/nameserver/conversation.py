"""Steps of a recorded conversation with a name server, and the raw frames they travel in.

Deliberately built without `emberq`: what checks our codec must not be made of it.
"""

import base64
import json
import re
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

JSON_HEADER = 0
BINARY_HEADER = 1
RESPONSE_FLAG = 1
CALL_TIMEOUT_S = 30.0
EVENTUALLY_TIMEOUT_S = 30.0

# Repeated questions make the numbers of later calls differ between two runs.
OPAQUE = re.compile(r'("opaque":)\d+')
LANGUAGES = (
    *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP"),
    *("GO", "PHP", "OMS", "RUST", "NODE_JS"),
)


@dataclass(frozen=True)
class Answer:
    """One frame from the server: the header as it was written and as it reads."""

    header_type: int
    header_text: str
    header: dict[str, Any]
    body: bytes

    def as_json(self, normalise: Callable[[str], str]) -> dict[str, Any]:
        text = OPAQUE.sub(r"\g<1>0", normalise(self.header_text))
        recorded: dict[str, Any] = {}
        if self.header_type == BINARY_HEADER:
            recorded["header_type"] = BINARY_HEADER
        recorded["header"] = json.loads(text)
        if text != json.dumps(recorded["header"], ensure_ascii=False, separators=(",", ":")):
            recorded["header_text"] = text
        return recorded | body_as_json(self.body, normalise)


def body_as_json(body: bytes, normalise: Callable[[str], str] = str) -> dict[str, str]:
    """Readable text where the bytes are UTF-8, base64 otherwise, nothing for no body."""
    if not body:
        return {}
    try:
        return {"body": normalise(body.decode())}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def body_from_json(recorded: dict[str, Any]) -> bytes:
    if "body_base64" in recorded:
        return base64.b64decode(recorded["body_base64"])
    return str(recorded.get("body", "")).encode()


@dataclass(frozen=True)
class Request:
    """What to send.

    `header_text` replaces the generated JSON header and `frame_hex` the whole frame, for
    spellings that no good client uses.
    """

    code: int
    fields: dict[str, str] = field(default_factory=dict)
    version: int = 513
    flag: int = 0
    body: bytes = b""
    header_type: int = JSON_HEADER
    header_text: str | None = None
    frame_hex: str | None = None

    def as_json(self) -> dict[str, Any]:
        recorded: dict[str, Any] = {"code": self.code, "fields": self.fields}
        recorded |= {"version": self.version, "flag": self.flag}
        if self.header_type != JSON_HEADER:
            recorded["header_type"] = self.header_type
        if self.header_text is not None:
            recorded["header_text"] = self.header_text
        if self.frame_hex is not None:
            recorded["frame_hex"] = self.frame_hex
        return recorded | body_as_json(self.body)

    @staticmethod
    def from_json(recorded: dict[str, Any]) -> "Request":
        return Request(
            code=recorded["code"],
            fields=recorded["fields"],
            version=recorded["version"],
            flag=recorded["flag"],
            body=body_from_json(recorded),
            header_type=recorded.get("header_type", JSON_HEADER),
            header_text=recorded.get("header_text"),
            frame_hex=recorded.get("frame_hex"),
        )

    def encode(self, opaque: int) -> bytes:
        if self.frame_hex is not None:
            return bytes.fromhex(self.frame_hex)
        if self.header_type == BINARY_HEADER:
            header = self._binary_header(opaque)
        elif self.header_text is not None:
            header = self.header_text.replace("{opaque}", str(opaque)).encode()
        else:
            header = self._json_header(opaque)
        word = self.header_type << 24 | len(header)
        return struct.pack(">ii", 4 + len(header) + len(self.body), word) + header + self.body

    def _json_header(self, opaque: int) -> bytes:
        header: dict[str, Any] = {"code": self.code}
        if self.fields:
            header["extFields"] = self.fields
        header |= {"flag": self.flag, "language": "JAVA", "opaque": opaque}
        header |= {"serializeTypeCurrentRPC": "JSON", "version": self.version}
        return json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()

    def _binary_header(self, opaque: int) -> bytes:
        entries = b"".join(
            struct.pack(">h", len(key.encode()))
            + key.encode()
            + struct.pack(">i", len(value.encode()))
            + value.encode()
            for key, value in self.fields.items()
        )
        fixed = struct.pack(">hBhiii", self.code, 0, self.version, opaque, self.flag, 0)
        return fixed + struct.pack(">i", len(entries)) + entries


class RawConnection:
    """One TCP connection that writes requests and reads whatever frames come back."""

    def __init__(self, peer: socket.socket) -> None:
        self._socket = peer
        self._buffer = b""
        self._next_opaque = 1
        self._unasked: list[Answer] = []

    @staticmethod
    def open(port: int) -> "RawConnection":
        return RawConnection(socket.create_connection(("127.0.0.1", port), CALL_TIMEOUT_S))

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Request) -> int:
        opaque = self._next_opaque
        self._next_opaque += 1
        self._socket.sendall(request.encode(opaque))
        return opaque

    def call(self, request: Request, timeout_s: float = CALL_TIMEOUT_S) -> Answer | None:
        """The answer, or None when none came in time."""
        return self.answer_to(self.send(request), timeout_s)

    def answer_to(self, opaque: int, timeout_s: float = CALL_TIMEOUT_S) -> Answer | None:
        deadline = time.monotonic() + timeout_s
        while (frame := self._read_frame(deadline)) is not None:
            is_answer = frame.header["flag"] & RESPONSE_FLAG
            if is_answer and frame.header["opaque"] == opaque:
                return frame
            self._unasked.append(frame)
        return None

    def unasked(self, timeout_s: float = CALL_TIMEOUT_S) -> Answer | None:
        """A frame that answers no call of ours, such as a request of the server."""
        if not self._unasked:
            return self._read_frame(time.monotonic() + timeout_s)
        return self._unasked.pop(0)

    def strays(self) -> list[Answer]:
        """Frames that came while others were waited for."""
        return list(self._unasked)

    def is_closed_by_server(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        try:
            while (frame := self._read_frame(deadline)) is not None:
                self._unasked.append(frame)
        except ConnectionError:
            return True
        return False

    def _read_frame(self, deadline: float) -> Answer | None:
        prefix = self._read_exactly(4, deadline)
        if prefix is None:
            return None
        rest = self._read_exactly(4 + struct.unpack(">i", prefix)[0], deadline)
        if rest is None:
            return None
        self._buffer = self._buffer[len(rest) :]
        return decode_frame(rest[4:])

    def _read_exactly(self, size: int, deadline: float) -> bytes | None:
        """The first `size` buffered bytes (left in the buffer), or None when time is up."""
        while len(self._buffer) < size:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return None
            self._socket.settimeout(remaining_s)
            try:
                chunk = self._socket.recv(1 << 16)
            except TimeoutError:
                return None
            if not chunk:
                raise ConnectionResetError("the server closed the connection")
            self._buffer += chunk
        return self._buffer[:size]


class Listener:
    """A broker's address as the server sees it: it may connect here and send requests."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._accepted: RawConnection | None = None
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def heard(self, timeout_s: float) -> Answer | None:
        """The next frame on whichever connection the server opens here."""
        deadline = time.monotonic() + timeout_s
        while (remaining_s := deadline - time.monotonic()) > 0:
            try:
                if self._accepted is None:
                    self._server.settimeout(remaining_s)
                    self._accepted = RawConnection(self._server.accept()[0])
                return self._accepted.unasked(remaining_s)
            except TimeoutError:
                return None
            except ConnectionError:  # it closed this one; it may open another
                self.drop()
        return None

    def drop(self) -> None:
        if self._accepted is not None:
            self._accepted.close()
            self._accepted = None

    def close(self) -> None:
        self._server.close()
        self.drop()


def decode_frame(frame: bytes) -> Answer:
    """Read a frame without its length word."""
    (word,) = struct.unpack_from(">i", frame)
    header_type, header_size = word >> 24, word & 0xFFFFFF
    header_bytes, body = frame[4 : 4 + header_size], frame[4 + header_size :]
    if header_type == BINARY_HEADER:
        header = _decode_binary_header(header_bytes)
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
        return Answer(header_type, text, header, body)
    text = header_bytes.decode()
    return Answer(header_type, text, json.loads(text), body)


def _decode_binary_header(header: bytes) -> dict[str, Any]:
    code, language, version, opaque, flag, remark_size = struct.unpack_from(">hBhiii", header)
    decoded: dict[str, Any] = {"code": code, "flag": flag, "language": LANGUAGES[language]}
    decoded |= {"opaque": opaque, "version": version}
    position = 17
    if remark_size:
        decoded["remark"] = header[position : position + remark_size].decode()
    position += remark_size
    (entries_size,) = struct.unpack_from(">i", header, position)
    position += 4
    end = position + entries_size
    fields = {}
    while position < end:
        (size,) = struct.unpack_from(">h", header, position)
        key = header[position + 2 : position + 2 + size].decode()
        position += 2 + size
        (size,) = struct.unpack_from(">i", header, position)
        fields[key] = header[position + 4 : position + 4 + size].decode()
        position += 4 + size
    if fields:
        decoded["extFields"] = fields
    return decoded


@dataclass(frozen=True)
class Step:
    """One thing that happens in a conversation; `kind` says which of the fields matter.

    request: send `request` on `connection`, record the answer (None: there is none).
    eventually: the same, repeated until `until` is true of the answer.
    close: our side closes `connection`. closed: the server closed it.
    heard: a frame that the server sent to the listener `connection`; `{listener NAME}` in a
    request's fields stands for that listener's address.
    file: the text of a file in the server's home.
    """

    kind: str
    name: str
    connection: str = "a"
    request: Request | None = None
    until: Callable[[Answer], bool] | None = None
    path: str = ""


@dataclass
class Conversation:
    """The open connections of one scenario with one server."""

    port: int
    home: Path
    connections: dict[str, RawConnection] = field(default_factory=dict)
    listeners: dict[str, Listener] = field(default_factory=dict)

    def addressed(self, request: Request) -> Request:
        """The request with the addresses of our listeners filled in."""
        fields = {key: self._fill_in(value) for key, value in request.fields.items()}
        return replace(request, fields=fields)

    def _fill_in(self, value: str) -> str:
        if not value.startswith("{listener "):
            return value
        return self.listener(value.removeprefix("{listener ").removesuffix("}")).address

    def listener(self, name: str) -> Listener:
        if name not in self.listeners:
            self.listeners[name] = Listener()
        return self.listeners[name]

    def normalise(self, text: str) -> str:
        """Replace what differs from run to run: folders, our listeners, the server's port."""
        for name, listener in self.listeners.items():
            text = text.replace(listener.address, f"{{listener {name}}}")
        return text.replace(str(self.home), "{home}").replace(str(self.port), "{port}")

    def connection(self, name: str) -> RawConnection:
        if name not in self.connections:
            self.connections[name] = RawConnection.open(self.port)
        return self.connections[name]

    def close(self, name: str) -> None:
        self.connections.pop(name).close()

    def close_all(self) -> None:
        for name in list(self.connections):
            self.close(name)
        for listener in self.listeners.values():
            listener.close()
