"""Connections that cannot be made, and connections that end early: always one clear error."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest

from emberq.errors import ConnectFailed, ConnectionClosed
from emberq.protocol.command import Command, new_request
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.tls import TlsSettings, client_context
from tests.support.endpoints import ECHO, WORK, connected, endpoint_of, serving
from tests.support.raw_peer import raw_peer
from tests.support.waiting import loop_turns, until

pytestmark = pytest.mark.integration


@pytest.fixture
async def deaf_address() -> AsyncIterator[tuple[str, int]]:
    """A listener that takes connections, reads nothing and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


def tls() -> ssl.SSLContext:
    return client_context(TlsSettings())


async def test_nobody_listens() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        _, port = sock.getsockname()

        with pytest.raises(ConnectFailed, match=rf"no connection to 127\.0\.0\.1:{port}: .+"):
            await connect("127.0.0.1", port, endpoint_of())


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 70 + ".example", ".", "a..b"])
async def test_the_host_does_not_exist(host: str) -> None:
    with pytest.raises(ConnectFailed):
        await connect(host, 9876, endpoint_of())


@pytest.mark.parametrize("port", [70000, -1, 2**40])
async def test_the_port_does_not_exist(port: int) -> None:
    with pytest.raises(ConnectFailed, match="a port is a number"):
        await connect("127.0.0.1", port, endpoint_of())


async def test_the_peer_does_not_answer_in_time() -> None:
    """A full backlog leaves the first packet unanswered."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        host, port = listener.getsockname()
        for _ in range(4):  # the backlog's real size is the kernel's choice
            filling = sockets.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex((host, port))

        with pytest.raises(ConnectFailed, match=r"within 0\.1 s"):
            await connect(host, port, endpoint_of(connect_timeout_s=0.1))


async def test_tls_to_a_peer_that_says_nothing_ends_in_time(deaf_address: tuple[str, int]) -> None:
    endpoint = endpoint_of(connect_timeout_s=0.05)

    with pytest.raises(ConnectFailed, match=r"within 0\.05 s"):
        await connect(*deaf_address, endpoint, tls=tls())

    await until(lambda: not endpoint.connections)


@pytest.mark.parametrize("turns_count", [0, 1, 2, 3, 5])
async def test_a_connect_cancelled_at_any_moment_leaves_no_connection_behind(
    deaf_address: tuple[str, int], turns_count: int
) -> None:
    endpoint = endpoint_of(connect_timeout_s=60)
    told: list[str] = []
    endpoint.on_open = lambda connection: told.append("open")
    endpoint.on_close = lambda connection: told.append("close")
    connecting = asyncio.create_task(connect(*deaf_address, endpoint, tls=tls()))
    if turns_count:
        await until(lambda: endpoint.connections)
    await loop_turns(turns_count)

    connecting.cancel()
    await asyncio.wait([connecting])

    assert connecting.cancelled()
    await until(lambda: not endpoint.connections)
    assert told in ([], ["open", "close"])


async def test_a_connect_cancelled_as_it_is_made_leaves_no_connection_behind(
    deaf_address: tuple[str, int],
) -> None:
    endpoint = endpoint_of(connect_timeout_s=60)

    def cancel(connection: Connection) -> None:
        connecting.cancel()

    endpoint.on_open = cancel
    connecting = asyncio.create_task(connect(*deaf_address, endpoint))

    await asyncio.wait([connecting])

    assert connecting.cancelled()
    await until(lambda: not endpoint.connections)


async def test_tls_to_a_plain_server_is_refused() -> None:
    async with serving(endpoint_of()) as address:
        with pytest.raises(ConnectFailed, match="closed at once by the peer"):
            await connect(*address, endpoint_of(), tls=tls())


async def test_tls_to_a_peer_that_answers_in_plain_text_says_so() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        endpoint = endpoint_of()
        with pytest.raises(ConnectFailed, match="TLS failed"):
            await connect("127.0.0.1", port_of(server), endpoint, tls=tls())
        await until(lambda: not endpoint.connections)


async def test_a_connection_above_the_clients_own_limit_says_so() -> None:
    client = endpoint_of(connections_max=1)
    async with serving(endpoint_of()) as address, connected(address, client):
        with pytest.raises(ConnectFailed, match="limit of 1 connections"):
            await connect(*address, client)


async def test_a_peer_that_hangs_up_ends_calls_and_refuses_new_ones() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server, connected(("127.0.0.1", port_of(server))) as connection:
        with pytest.raises(ConnectionClosed):
            await connection.call(new_request(ECHO), 10)
        with pytest.raises(ConnectionClosed):
            await connection.call(new_request(ECHO), 10)
        with pytest.raises(ConnectionClosed):
            connection.send_oneway(new_request(WORK))


async def test_owners_hear_of_every_end_whoever_caused_it() -> None:
    closed: list[str] = []
    endpoint = endpoint_of(on_close=lambda connection: closed.append(connection.peer))
    async with (
        serving(endpoint) as address,
        raw_peer(address) as orderly,
        raw_peer(address) as resetting,
    ):
        await orderly.ask(Command(code=ECHO))
        await resetting.ask(Command(code=ECHO))
        names = {f"127.0.0.1:{p.socket.getsockname()[1]}" for p in (orderly, resetting)}
        orderly.close()
        resetting.reset()
        await until(lambda: len(closed) == 2)

    assert set(closed) == names
