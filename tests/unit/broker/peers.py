"""Clients without a network: as much of a connection as handlers look at."""

from collections.abc import Callable
from inspect import isawaitable
from typing import cast

from emberq.errors import ConnectionClosed, RequestRejected
from emberq.protocol.command import ONEWAY_BIT, Command, answer, new_request
from emberq.protocol.frame import parse_frame
from emberq.protocol.versions import CURRENT
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry

Reply = Callable[[Command], Command]


class Peer:
    """A client that keeps what it is sent, and answers calls as it is told to."""

    def __init__(self, peer: str = "10.0.0.1:4711", reply: Reply | Exception | None = None) -> None:
        self.peer = peer
        self.is_closed = False
        self.sent: list[Command] = []
        self.timeouts_s: list[float] = []
        self._reply = reply

    @property
    def connection(self) -> Connection:
        return cast(Connection, self)

    def send_oneway(self, command: Command) -> None:
        if self.is_closed:
            raise ConnectionClosed(f"connection to {self.peer} is closed")
        command.flag |= ONEWAY_BIT
        self.sent.append(command)

    async def call(self, command: Command, timeout_s: float) -> Command:
        self.sent.append(command)
        self.timeouts_s.append(timeout_s)
        assert self._reply is not None
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply(command)

    def close(self) -> None:
        self.is_closed = True


async def ask(
    registry: HandlerRegistry,
    peer: Peer,
    code: int,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    version: int = CURRENT,
    language: str | int = "JAVA",
) -> Command:
    """What the handler of a code answers; a refusal is an answer too."""
    command = new_request(code, fields, body, version=version)
    command.language = language
    command.opaque = 77
    entry = registry.get(code)
    assert entry is not None, f"{code} is not handled"
    try:
        result = entry.handle(command, peer.connection)
        if isawaitable(result):
            result = await result
    except RequestRejected as rejected:
        return answer(command, rejected.code, rejected.remark, rejected.fields)
    if isinstance(result, bytes):
        result = parse_frame(result)
    assert isinstance(result, Command)
    return result
