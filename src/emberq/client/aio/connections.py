"""One connection per address, made when it is needed and shared by all who need it."""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable

from msgspec import Struct

from emberq.errors import CallTimeout, ClientClosed, ConnectFailed
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command
from emberq.remoting.addresses import split_address
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection, Request
from emberq.remoting.endpoint import Endpoint

log = logging.getLogger(__name__)

# Called with an address when a connection to it was made; True: not the first one.
OnConnected = Callable[[str, bool], None]

# A peer that leaves calls unanswered and says nothing else for so long is not there any more.
SILENCE_MAX_S = 3.0
CLOCK_TOLERANCE_S = 0.1


class StartedCall(Struct):
    """A request that has left. Who stops waiting for its answer calls `forget`."""

    connection: Connection
    address: str
    request: Request
    timeout_s: float
    answer: "asyncio.Future[Command]"

    def forget(self) -> None:
        self.connection.forget_call(self.request)


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
        # Since when an address has left calls unanswered without saying anything else.
        self._silent_since: dict[str, float] = {}
        self._is_closed = False

    async def call(self, address: str, command: Request, timeout_s: float) -> Command:
        """Send a request and wait for its answer.

        Raises:
            ConnectFailed, ConnectionClosed, CallTimeout, TooManyPendingCalls, FrameTooLarge
        """
        call = self.start_call(address, command, timeout_s)
        if call is None:
            connection, timeout_s = await self._connected_within(address, timeout_s)
            answer = connection.start_call(command, timeout_s)
            call = StartedCall(connection, address, command, timeout_s, answer)
        return await self.finish_call(call)

    def start_call(self, address: str, command: Request, timeout_s: float) -> StartedCall | None:
        """Send a request now, if there is a connection already.

        Raises:
            ConnectionClosed, TooManyPendingCalls, FrameTooLarge
        """
        connection = self._open.get(address)
        if connection is None or connection.is_closed:
            return None
        answer = connection.start_call(command, timeout_s)
        return StartedCall(connection, address, command, timeout_s, answer)

    async def finish_call(self, call: StartedCall) -> Command:
        """The answer to a call. Raises what `call` raises."""
        address = call.address
        try:
            answer = await call.answer
        except asyncio.CancelledError:
            call.forget()
            raise
        except CallTimeout:
            self._note_silence(call.connection, address, call.timeout_s)
            raise
        if answer.code != ResponseCode.GO_AWAY:
            return answer
        # The server is leaving: once more, on a new connection.
        log.info("connection_replaced peer=%s reason=go_away", address)
        self._forget(address, call.connection)
        connection, timeout_s = await self._connected_within(address, call.timeout_s)
        return await connection.call(call.request, timeout_s)

    async def send_oneway(self, address: str, command: Command) -> None:
        """Raises ConnectFailed, ConnectionClosed, TooManyPendingCalls, FrameTooLarge."""
        connection = self.at_hand(address)
        if connection is None:
            limit_s = self._endpoint.limits.connect_timeout_s
            connection, _ = await self._connected_within(address, limit_s)
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
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        connections, self._open = list(self._open.values()), {}
        for connection in connections:
            connection.close()
        closing = [connection.closed for connection in connections if not connection.is_closed]
        if closing:
            await asyncio.wait(closing, timeout=self._endpoint.limits.stop_grace_s)
            for connection in connections:
                connection.abort()

    def _note_silence(self, connection: Connection, address: str, waited_s: float) -> None:
        """Hang up on a peer that has not said anything since: a cut cable closes no connection,
        and everybody would go on calling into it. Whoever waits is told now, and tries again."""
        if self.at_hand(address) is not connection:
            return  # others have waited in vain at the same time
        now = time.monotonic()
        since = self._silent_since.setdefault(address, now - waited_s)
        if connection.heard_since(since):
            del self._silent_since[address]
        elif now - since > SILENCE_MAX_S - CLOCK_TOLERANCE_S:
            log.warning("connection_dropped peer=%s reason=silent", address)
            connection.close_reason = "the peer is silent"
            self._drop_from_table(address, connection)
            connection.abort()

    async def _connected_within(self, address: str, timeout_s: float) -> tuple[Connection, float]:
        """A new connection, and how much of the time is left. Who comes while it is being made
        waits for the same one."""
        started_at = time.monotonic()
        if self._is_closed:
            raise ClientClosed("the client is closed")
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connect_ended(address, done))
        # No shield: who waits must be able to tell its own end from the task's.
        await asyncio.wait([task], timeout=timeout_s)
        if not task.done():
            raise ConnectFailed(f"no connection to {address} within {timeout_s:g} s")
        if task.cancelled():
            raise ClientClosed("the client was closed while it connected")
        return task.result(), max(timeout_s - (time.monotonic() - started_at), 0.0)

    async def _connect(self, address: str) -> Connection:
        host, port = split_address(address)
        connection = await connect(host, port, self._endpoint, tls=self._tls)
        self._open[address] = connection
        self._silent_since.pop(address, None)
        is_again = address in self._seen
        self._seen.add(address)
        self._on_connected(address, is_again)
        return connection

    def _connect_ended(self, address: str, done: "asyncio.Task[Connection]") -> None:
        self._connecting.pop(address, None)
        if not done.cancelled():
            done.exception()  # known to those who wait, if there still is anybody

    def _forget(self, address: str, connection: Connection) -> None:
        self._drop_from_table(address, connection)
        connection.close()

    def _drop_from_table(self, address: str, connection: Connection) -> None:
        if self._open.get(address) is connection:
            del self._open[address]
