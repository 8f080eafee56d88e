"""A peer that sends exactly the bytes it is told to, and reads only when it is asked to."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from emberq.protocol.command import Command
from emberq.protocol.frame import FrameDecoder, encode_frame
from tests.support.waiting import DEADLINE_S

_READ_SIZE_BYTES = 64 * 1024


class RawPeer:
    """A bare socket with the frame codec at hand; every wait has a deadline."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._decoder = FrameDecoder()

    async def send(self, *pieces: bytes | Command) -> None:
        """Each piece is a write of its own."""
        loop = asyncio.get_running_loop()
        for piece in pieces:
            content = piece if isinstance(piece, bytes) else encode_frame(piece)
            async with asyncio.timeout(DEADLINE_S):
                await loop.sock_sendall(self.socket, content)

    async def receive_bytes(self) -> bytes:
        """What is there, or b"" when the other side has hung up."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await loop.sock_recv(self.socket, _READ_SIZE_BYTES)
        except ConnectionError:
            return b""

    async def receive(self) -> Command:
        while True:
            command = self._decoder.next()
            if command is not None:
                return command
            content = await self.receive_bytes()
            if not content:
                raise EOFError("the other side hung up")
            self._decoder.feed(content)

    async def ask(self, request: Command) -> Command:
        await self.send(request)
        return await self.receive()

    async def received_until_hung_up(self) -> bytes:
        """Everything up to the end; fails at the deadline when the other side stays."""
        received = bytearray()
        while content := await self.receive_bytes():
            received += content
        return bytes(received)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close so that the other side sees a reset instead of an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


@asynccontextmanager
async def raw_peer(
    address: tuple[str, int], *, receive_buffer_bytes: int | None = None
) -> AsyncIterator[RawPeer]:
    """Connect. A small receive buffer makes a slow reader felt early."""
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.get_running_loop().sock_connect(sock, address)
        yield RawPeer(sock)
    finally:
        sock.close()
