"""One connection per address, made when it is needed and shared by all who need it."""

import asyncio
import logging
import ssl
from collections.abc import Callable

from emberq.errors import ClientClosed
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command
from emberq.remoting.addresses import split_address
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection, Request
from emberq.remoting.endpoint import Endpoint

log = logging.getLogger(__name__)

# Called with an address when a connection to it was made; True: not the first one.
OnConnected = Callable[[str, bool], None]


class Connections:
    """Calls by address. A connection that was lost is made anew by the next call."""

    def __init__(
        self,
        endpoint: Endpoint,
        tls: ssl.SSLContext | None = None,
        *,
        on_connected: OnConnected = lambda address, is_again: None,
    ) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._on_connected = on_connected
        self._seen: set[str] = set()
        self._open: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._is_closed = False

    async def call(self, address: str, command: Request, timeout_s: float) -> Command:
        """Send a request and wait for its answer.

        Raises:
            ConnectFailed, ConnectionClosed, CallTimeout, TooManyPendingCalls, FrameTooLarge
        """
        connection = self.at_hand(address) or await self._connected(address)
        call = connection.start_call(command, timeout_s)
        try:
            answer = await call
        except asyncio.CancelledError:
            connection.forget_call(command)
            raise
        if answer.code != ResponseCode.GO_AWAY:
            return answer
        # The server is leaving: once more, on a new connection.
        log.info("connection_replaced peer=%s reason=go_away", address)
        self._forget(address, connection)
        connection = await self._connected(address)
        return await connection.call(command, timeout_s)

    async def send_oneway(self, address: str, command: Command) -> None:
        """Raises ConnectFailed, ConnectionClosed, TooManyPendingCalls, FrameTooLarge."""
        connection = self.at_hand(address) or await self._connected(address)
        connection.send_oneway(command)

    def at_hand(self, address: str) -> Connection | None:
        """A connection that is there already."""
        connection = self._open.get(address)
        return None if connection is None or connection.is_closed else connection

    def addresses(self) -> list[str]:
        return [address for address, each in self._open.items() if not each.is_closed]

    def drop(self, address: str) -> None:
        """Hang up: the address is no longer in use."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Hang up everywhere; nobody is called from now on."""
        self._is_closed = True
        for task in self._connecting.values():
            task.cancel()
        connections, self._open = list(self._open.values()), {}
        for connection in connections:
            connection.close()
        closing = [connection.closed for connection in connections if not connection.is_closed]
        if closing:
            await asyncio.wait(closing, timeout=self._endpoint.limits.stop_grace_s)
            for connection in connections:
                connection.abort()

    async def _connected(self, address: str) -> Connection:
        """Who comes while a connection is being made waits for the same one."""
        if self._is_closed:
            raise ClientClosed("the client is closed")
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connecting.pop(address, None))
        return await asyncio.shield(task)

    async def _connect(self, address: str) -> Connection:
        host, port = split_address(address)
        connection = await connect(host, port, self._endpoint, tls=self._tls)
        self._open[address] = connection
        is_again = address in self._seen
        self._seen.add(address)
        self._on_connected(address, is_again)
        return connection

    def _forget(self, address: str, connection: Connection) -> None:
        if self._open.get(address) is connection:
            del self._open[address]
        connection.close()
