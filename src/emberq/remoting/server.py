"""Accepts connections and looks after them: idle and stalled peers, graceful stop."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from emberq.errors import ListenFailed
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint, check_port
from emberq.remoting.limits import RemotingLimits

log = logging.getLogger(__name__)

SWEEP_INTERVAL_MAX_S = 5.0
LAG_PROBE_INTERVAL_S = 0.05
_STOP_POLL_S = 0.005
_ABORT_MAX_S = 1.0


@asynccontextmanager
async def listening(endpoint: Endpoint, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """Serve `endpoint` on an address (port 0: any free one) and yield the real address.

    Leaving the block stops gracefully: no new connections or bytes, requests that are here are
    answered, answers leave, connections close.

    Raises:
        ListenFailed: the address cannot be had.
    """
    loop = asyncio.get_running_loop()
    try:
        check_port(port)
        server = await loop.create_server(
            lambda: Connection(endpoint), host, port, backlog=endpoint.limits.backlog
        )
    except (OSError, ValueError) as error:  # the second: no port, no host name
        raise _listen_failed(host, port, error) from None
    async with _looked_after(endpoint, [server]):
        yield server.sockets[0].getsockname()[:2]


@asynccontextmanager
async def listening_on(endpoint: Endpoint, sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
    """The same on sockets that `bound_socket` made; they are closed with the block."""
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(
            lambda: Connection(endpoint), sock=bound, backlog=endpoint.limits.backlog
        )
        for bound in sockets
    ]
    async with _looked_after(endpoint, servers):
        yield


def bound_socket(host: str, port: int) -> socket.socket:
    """An address that is ours (port 0: any free one), where nobody can connect yet.

    Raises:
        ListenFailed: the address cannot be had.
    """
    try:
        check_port(port)
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, ValueError) as error:
        raise _listen_failed(host, port, error) from None
    try:
        if os.name == "posix":  # elsewhere it would let two programs have one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise _listen_failed(host, port, error) from None
    return bound


def _listen_failed(host: str, port: int, error: Exception) -> ListenFailed:
    # asyncio wraps the system's words in its own; the number still has them.
    number = getattr(error, "errno", None) or 0
    reason = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or error
    return ListenFailed(f"cannot listen on {host}:{port}: {reason}")


@asynccontextmanager
async def _looked_after(
    endpoint: Endpoint, servers: Sequence[asyncio.AbstractServer]
) -> AsyncIterator[None]:
    watches = [asyncio.create_task(_sweep(endpoint))]
    if endpoint.registry.has_wait_limits:
        watches.append(asyncio.create_task(_measure_lag(endpoint)))
    try:
        yield
    finally:
        await _stop_accepting(servers)
        await _stop(endpoint)
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def _stop_accepting(servers: Sequence[asyncio.AbstractServer]) -> None:
    """asyncio drops who was accepted in the turn in which a server closes, and leaks the socket:
    look away from the listening sockets first, so that those become connections."""
    loop = asyncio.get_running_loop()
    for server in servers:
        for listener in getattr(server, "sockets", ()):
            with suppress(NotImplementedError):  # the loop of Windows has no readers
                loop.remove_reader(listener.fileno())
    try:
        await asyncio.sleep(0)
    finally:
        for server in servers:
            server.close()


async def _stop(endpoint: Endpoint) -> None:
    endpoint.is_stopping = True
    loop = asyncio.get_running_loop()
    deadline = loop.time() + endpoint.limits.stop_grace_s
    connections = set(endpoint.connections)
    for connection in connections:
        connection.stop_reading()
    dispatcher = endpoint.dispatcher
    # Work that waited for its turn may start new handlers, and handlers write new answers: only
    # looking at both again and again tells that all is done.
    while (  # noqa: ASYNC110 - there is no single event to wait for
        dispatcher.in_flight or any(connection.is_busy for connection in connections)
    ) and loop.time() < deadline:
        await asyncio.sleep(_STOP_POLL_S)
    cancelled = await dispatcher.cancel()
    if cancelled:
        log.warning("requests_cancelled count=%d", cancelled)
    for connection in connections:
        connection.close()
    closing = [connection.closed for connection in connections]
    if closing:
        await asyncio.wait(closing, timeout=max(deadline - loop.time(), 0.1))
    unfinished = set(endpoint.connections)
    for connection in unfinished:
        connection.abort()
    if unfinished:
        await asyncio.wait([connection.closed for connection in unfinished], timeout=_ABORT_MAX_S)


async def _sweep(endpoint: Endpoint) -> None:
    """Close connections that are idle, stalled or unfinished for too long."""
    interval_s = _sweep_interval_s(endpoint.limits)
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(interval_s)
        now = loop.time()
        for connection in list(endpoint.connections):
            reason = connection.overdue_reason(now)
            if reason is not None:
                log.info("connection_closed peer=%s reason=%s", connection.peer, reason)
                connection.abort()


def _sweep_interval_s(limits: RemotingLimits) -> float:
    shortest = min(
        limits.idle_max_s,
        limits.preface_max_s,
        limits.write_stall_max_s,
        limits.partial_frame_max_s,
    )
    return min(shortest / 4, SWEEP_INTERVAL_MAX_S)


async def _measure_lag(endpoint: Endpoint) -> None:
    """How late the loop runs: bytes wait that long in the kernel before we see them.

    Late once is a stall, over when it is noticed: to refuse what piled up would help nobody. Late
    twice in a row is too much work. The figure is good for the bytes that are read in this turn;
    what comes after them has not waited.
    """
    loop = asyncio.get_running_loop()
    before_ms = 0.0

    def forget() -> None:
        endpoint.loop_lag_ms = 0.0

    while True:
        due = loop.time() + LAG_PROBE_INTERVAL_S
        await asyncio.sleep(LAG_PROBE_INTERVAL_S)
        lag_ms = max(0.0, (loop.time() - due) * 1000)
        endpoint.loop_lag_ms = min(lag_ms, before_ms)
        before_ms = lag_ms
        loop.call_soon(forget)
