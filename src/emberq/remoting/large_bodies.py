"""Large answers are received where they will stay: no chunks that are joined afterwards."""

import asyncio
from collections.abc import Callable
from typing import cast

from emberq.protocol.command import Command
from emberq.protocol.frame import BodyInMaking


class LargeBodyReceiver(asyncio.BufferedProtocol):
    """Takes a protocol's place until the body of one command is complete."""

    def __init__(
        self,
        protocol: asyncio.Protocol,
        transport: asyncio.Transport,
        body: BodyInMaking,
        on_bytes: Callable[[int, Command | None], None],
    ) -> None:
        """`on_bytes` is told how many bytes of the body are there, and the command with the last
        of them, when the protocol has its place again."""
        self._protocol = protocol
        self._transport = transport
        self._body = body
        self._on_bytes = on_bytes

    def take_over(self) -> None:
        _hand_over(self._transport, self)

    def get_buffer(self, _sizehint: int) -> bytearray:
        # Any writable buffer will do; the signature that is inherited says otherwise.
        return cast(bytearray, self._body.room)

    def buffer_updated(self, count: int) -> None:
        command = self._body.finish(count)
        if command is not None:
            _hand_over(self._transport, self._protocol)
        self._on_bytes(self._body.received_size, command)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


def _hand_over(transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
    # uvloop chooses how it reads when reading begins.
    transport.pause_reading()
    transport.set_protocol(protocol)
    transport.resume_reading()
