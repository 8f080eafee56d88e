"""A TCP proxy that breaks connections on command, for tests of clients and servers.

    async with faulty_proxy("127.0.0.1:9876") as proxy:
        producer = Producer("group", name_server=proxy.address)
        ...
        proxy.freeze()  # half-open: nobody hears anything any more, and nobody is told

Clients learn brokers' addresses from routes, so a broker must announce the proxy: give it
`brokerIP1=127.0.0.2` and `bindAddress=127.0.0.1`, and let the proxy listen on 127.0.0.2 and the
broker's own port. It runs on the loop that started it; commands are plain calls on that loop.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto

from emberq.remoting.addresses import join_address, split_address

CHUNK_MAX_BYTES = 64 * 1024
CONNECT_TIMEOUT_S = 3.0
# A closed socket with this option sends a reset, as the kernel of a killed process may do.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Towards(Enum):
    """A direction."""

    SERVER = auto()
    CLIENT = auto()


class _Way:
    """One direction of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.delay_s = 0.0
        self.bytes_left: int | None = None  # then the connection ends

    async def forward(self) -> None:
        """Until one side ends the connection, or the proxy does. What is held back is not read."""
        while True:
            await self.is_open.wait()
            chunk = await self._reader.read(CHUNK_MAX_BYTES)
            await self.is_open.wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self.bytes_left is not None:
                chunk = chunk[: self.bytes_left]
                self.bytes_left -= len(chunk)
            self._writer.write(chunk)
            await self._writer.drain()
            if not chunk or self.bytes_left == 0:
                return


class _Link:
    """A client's connection and its continuation to the server."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._writers = (client[1], server[1])
        self.ways = {
            Towards.SERVER: _Way(client[0], server[1]),
            Towards.CLIENT: _Way(server[0], client[1]),
        }

    async def forward(self) -> None:
        tasks = [asyncio.create_task(way.forward()) for way in self.ways.values()]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for writer in self._writers:
                writer.close()

    def reset(self) -> None:
        for writer in self._writers:
            stream: socket.socket = writer.get_extra_info("socket")
            with suppress(OSError):
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()


class FaultyProxy:
    """Forwards connections to one server."""

    def __init__(self, target: str, host: str, port: int) -> None:
        self._target = split_address(target)
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._links: dict[_Link, asyncio.Task[None]] = {}
        self._stalled: set[Towards] = set()
        self._delay_s = 0.0
        # How many connections were made so far.
        self.accepted = 0

    @property
    def address(self) -> str:
        """Where clients connect to."""
        return join_address(self._host, self._port)

    @property
    def connections(self) -> int:
        """Those that are there now, frozen ones included."""
        return len(self._links)

    async def listen(self) -> None:
        """Take connections again after `refuse`."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, self._host, self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    # Faults

    def cut(self) -> None:
        """Reset every connection; new ones are forwarded."""
        for link, task in list(self._links.items()):
            link.reset()
            task.cancel()

    def refuse(self) -> None:
        """Reset every connection and take no new one, until `listen`."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def freeze(self) -> None:
        """Forward nothing more on the connections that are there, nor that they end: half-open.
        New ones are forwarded."""
        for link in self._links:
            for way in link.ways.values():
                way.is_open.clear()

    def stall(self, towards: Towards) -> None:
        """Forward nothing in one direction, on old connections and new ones, until `heal`."""
        self._stalled.add(towards)
        for link in self._links:
            link.ways[towards].is_open.clear()

    def delay(self, seconds: float) -> None:
        """Forward everything so much later, on old connections and new ones, until `heal`."""
        self._delay_s = seconds
        for link in self._links:
            for way in link.ways.values():
                way.delay_s = seconds

    def truncate(self, towards: Towards, after_bytes: int) -> None:
        """Forward this many bytes more on every connection, then end it: in the middle of a
        frame, most likely."""
        for link in self._links:
            link.ways[towards].bytes_left = after_bytes

    def heal(self) -> None:
        """Forward as if nothing had been, on frozen connections too."""
        self._stalled.clear()
        self.delay(0.0)
        for link in self._links:
            for way in link.ways.values():
                way.bytes_left = None
                way.is_open.set()

    async def close(self) -> None:
        self.refuse()
        tasks = list(self._links.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                server = await asyncio.open_connection(*self._target)
        except OSError:  # also of the timeout
            writer.transport.abort()
            return
        link = _Link((reader, writer), server)
        for towards in self._stalled:
            link.ways[towards].is_open.clear()
        for way in link.ways.values():
            way.delay_s = self._delay_s
        self.accepted += 1
        task = self._links[link] = asyncio.create_task(link.forward())
        task.add_done_callback(lambda done: self._links.pop(link, None))


@asynccontextmanager
async def faulty_proxy(
    target: str, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[FaultyProxy]:
    """A proxy to `target` (`host:port`) until the block ends; port 0 takes a free one."""
    proxy = FaultyProxy(target, host, port)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.close()
