"""Steps of a recorded conversation with a broker, and the connections they happen on.

Deliberately built without `emberq`: what checks our codec must not be made of it.
"""

import base64
import re
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.golden.nameserver.conversation import CALL_TIMEOUT_S, Answer, RawConnection, Request

ONEWAY_FLAG = 2
RESPONSE_FLAG = 1
DEFAULT_VERSION = 513
NEAR_NOW_MS = 4 * 3600 * 1000
LONGEST_DELAY_MS = 600_000
CLOCK_STEP_S = 0.005

PLACEHOLDER = re.compile(r"\{(now|offset|id|handle|time|port|peer|home)( [\w-]+)?([+-]\d+)?\}")
LONG_RUN = re.compile(r"(\w)\1{299,}")
SHORTENED_RUN = re.compile(r"\{repeat (\w) (\d+)\}")
OFFSET_ID = re.compile(r"7F000001[0-9A-F]{24}")
UNIQUE_KEY = re.compile(r"(?<![0-9A-F])[0-9A-F]{32}(?![0-9A-F])")
DATE = re.compile(r"20\d\d-\d\d-\d\d[# ][\d:,]{8,12}")
TIME_MS = re.compile(r"(?<![\d.])\d{13}(?!\d)")


@dataclass(frozen=True)
class Step:
    """One thing that happens in a conversation; `kind` says which of the fields matter.

    request: send `request` on `connection`, record the answer (None: there is none).
    eventually: the same, repeated until `until` is true of the answer.
    start: send and go on. await: the answer to the call started as `call`. quiet: it is not
    answered yet.
    heard: a request that the server sends on `connection`. reply: our answer to the last one.
    close: our side closes `connection`. closed: the server closed it.
    mark: remember the time as `call`; later steps happen in a later millisecond.
    """

    kind: str
    name: str
    connection: str = "a"
    request: Request | None = None
    until: Callable[[dict[str, Any]], bool] | None = None
    call: str = ""
    keep: str = ""

    def as_json(self) -> dict[str, Any]:
        recorded: dict[str, Any] = {"kind": self.kind, "name": self.name}
        recorded |= {"connection": self.connection} if self.connection != "a" else {}
        recorded |= {"call": self.call} if self.call else {}
        recorded |= {"keep": self.keep} if self.keep else {}
        if self.request is not None:
            recorded["request"] = request_as_json(self.request)
        return recorded


def request_as_json(request: Request) -> dict[str, Any]:
    recorded: dict[str, Any] = {"code": request.code}
    if request.fields:
        recorded["fields"] = {key: shortened(value) for key, value in request.fields.items()}
    if request.version != DEFAULT_VERSION:
        recorded["version"] = request.version
    if request.flag:
        recorded["flag"] = request.flag
    if request.header_type:
        recorded["header_type"] = request.header_type
    if request.header_text is not None:
        recorded["header_text"] = request.header_text
    return recorded | bytes_as_json(request.body)


def request_from_json(recorded: dict[str, Any]) -> Request:
    return Request(
        code=recorded["code"],
        fields={key: lengthened(value) for key, value in recorded.get("fields", {}).items()},
        version=recorded.get("version", DEFAULT_VERSION),
        flag=recorded.get("flag", 0),
        body=bytes_from_json(recorded),
        header_type=recorded.get("header_type", 0),
        header_text=recorded.get("header_text"),
    )


def bytes_as_json(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        return {"body": shortened(body.decode())}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def bytes_from_json(recorded: dict[str, Any]) -> bytes:
    if "body_base64" in recorded:
        return base64.b64decode(recorded["body_base64"])
    return lengthened(recorded.get("body", "")).encode()


def shortened(text: str) -> str:
    """Long runs of one letter as `{repeat LETTER COUNT}`."""
    return LONG_RUN.sub(lambda found: f"{{repeat {found[1]} {len(found[0])}}}", text)


def lengthened(text: str) -> str:
    return SHORTENED_RUN.sub(lambda found: found[1] * int(found[2]), text)


class BrokerConnection(RawConnection):
    """A connection on which the broker may also ask us something."""

    def __init__(self, peer: socket.socket) -> None:
        super().__init__(peer)
        self.local_port: int = peer.getsockname()[1]

    @staticmethod
    def connect(port: int) -> "BrokerConnection":
        return BrokerConnection(socket.create_connection(("127.0.0.1", port), CALL_TIMEOUT_S))

    def reply(self, opaque: int, answer: Request) -> None:
        self._socket.sendall(replace(answer, flag=RESPONSE_FLAG).encode(opaque))


@dataclass
class Conversation:
    """The connections of one conversation with one broker, and what was remembered of it."""

    port: int
    home: Path
    connections: dict[str, BrokerConnection] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    handles: dict[str, str] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    calls: dict[str, tuple[str, int]] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    _peers: dict[str, int] = field(default_factory=dict)

    def connection(self, name: str) -> BrokerConnection:
        if name not in self.connections:
            self.connections[name] = BrokerConnection.connect(self.port)
            self._peers[name] = self.connections[name].local_port
        return self.connections[name]

    def close(self, name: str) -> None:
        self.connections.pop(name).close()

    def close_all(self) -> None:
        for name in list(self.connections):
            self.close(name)

    def is_ours(self, port: int) -> bool:
        return port in self._peers.values()

    def mark(self, name: str) -> None:
        """A moment after everything before and before everything after."""
        time.sleep(CLOCK_STEP_S)  # the broker stamps messages with whole milliseconds
        self.times[name] = now_ms()
        time.sleep(CLOCK_STEP_S)

    def filled_in(self, request: Request) -> Request:
        fields = {key: self.fill_in(value) for key, value in request.fields.items()}
        body = request.body
        if b"{" in body:
            try:
                body = self.fill_in(body.decode()).encode()
            except UnicodeDecodeError:
                body = request.body
        return replace(request, fields=fields, body=body)

    def fill_in(self, text: str) -> str:
        return PLACEHOLDER.sub(self._value_of, text)

    def _value_of(self, found: re.Match[str]) -> str:
        kind, name, shift = found[1], (found[2] or "").strip(), int(found[3] or 0)
        match kind:
            case "now":
                return str(now_ms() + shift)
            case "time":
                return str(self.times[name] + shift)
            case "offset":
                return str(int(self.kept[name][16:32], 16) + shift)
            case "id" | "handle":
                return (self.kept if kind == "id" else self.handles)[name]
            case "peer":
                return f"127.0.0.1:{self.connection(name).local_port}"
            case _:
                return str(self.port if kind == "port" else self.home)

    def normalise(self, text: str) -> str:
        """Replace what differs from run to run."""
        for name, port in self._peers.items():
            text = text.replace(f"127.0.0.1:{port}", f"{{peer {name}}}")
        text = text.replace(str(self.home), "{home}")
        text = re.sub(rf"(?<!\d){self.port}(?!\d)", "{port}", text)
        text = re.sub(rf"(?<!\d){self.port + 1}(?!\d)", "{port+1}", text)
        text = OFFSET_ID.sub(self._offset_id, text)
        text = UNIQUE_KEY.sub("{unique}", text)
        text = DATE.sub("{date}", text)
        return TIME_MS.sub(lambda found: "{ms}" if is_near_now(int(found[0])) else found[0], text)

    def _offset_id(self, found: re.Match[str]) -> str:
        (port,) = struct.unpack(">i", bytes.fromhex(found[0][8:16]))
        return "{id}" if port == self.port else found[0]

    def normalise_value(self, value: Any) -> Any:
        """The same inside a JSON value."""
        if isinstance(value, str):
            return self.normalise(value)
        if isinstance(value, dict):
            return {
                self.normalise(name): "{delay}"
                if name == "delayTime" and isinstance(entry, int) and entry < LONGEST_DELAY_MS
                else self.normalise_value(entry)
                for name, entry in value.items()
            }
        if isinstance(value, list):
            return [self.normalise_value(entry) for entry in value]
        if isinstance(value, int) and not isinstance(value, bool) and is_near_now(value):
            return "{ms}"
        return value


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def is_near_now(value: int) -> bool:
    return abs(value - now_ms()) < NEAR_NOW_MS


def is_server_request(frame: Answer) -> bool:
    return not frame.header["flag"] & RESPONSE_FLAG
