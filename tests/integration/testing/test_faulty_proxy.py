"""The proxy does to connections what it says."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from emberq.testing.faulty_proxy import FaultyProxy, Towards, faulty_proxy
from tests.support.waiting import DEADLINE_S, until

pytestmark = pytest.mark.integration

SILENCE_S = 0.2

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def proxy() -> AsyncIterator[FaultyProxy]:
    """To a server that says everything twice."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(line * 2)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with faulty_proxy(f"{host}:{port}") as started:
        yield started
    server.close()


Dial = Callable[[FaultyProxy], Awaitable[Streams]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    writers: list[asyncio.StreamWriter] = []

    async def connect(proxy: FaultyProxy) -> Streams:
        host, _, port = proxy.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.transport.abort()


async def say(streams: Streams, text: bytes) -> bytes:
    """What comes back."""
    reader, writer = streams
    writer.write(text)
    async with asyncio.timeout(DEADLINE_S):
        return await reader.readexactly(2 * len(text))


async def is_silent(streams: Streams, text: bytes) -> bool:
    """Whether nothing comes back for a moment."""
    reader, writer = streams
    writer.write(text)
    try:
        async with asyncio.timeout(SILENCE_S):
            await reader.readexactly(1)
    except TimeoutError:
        return True
    return False


async def is_reset(streams: Streams) -> bool:
    try:
        return await streams[0].read() == b""
    except ConnectionError:
        return True


async def test_it_forwards(proxy: FaultyProxy, dial: Dial) -> None:
    assert await say(await dial(proxy), b"a\n") == b"a\na\n"
    assert (proxy.accepted, proxy.connections) == (1, 1)


async def test_a_cut_ends_old_connections_only(proxy: FaultyProxy, dial: Dial) -> None:
    old = await dial(proxy)
    await say(old, b"a\n")
    proxy.cut()

    assert await is_reset(old)
    assert await say(await dial(proxy), b"b\n") == b"b\nb\n"


async def test_frozen_connections_are_silent_and_stay(proxy: FaultyProxy, dial: Dial) -> None:
    old = await dial(proxy)
    await say(old, b"a\n")
    proxy.freeze()

    assert await is_silent(old, b"b\n")
    assert await say(await dial(proxy), b"c\n") == b"c\nc\n"
    proxy.heal()
    assert await old[0].readexactly(4) == b"b\nb\n"


@pytest.mark.parametrize("towards", list(Towards))
async def test_a_stalled_direction_goes_on_when_it_is_healed(
    proxy: FaultyProxy, dial: Dial, towards: Towards
) -> None:
    proxy.stall(towards)
    streams = await dial(proxy)

    assert await is_silent(streams, b"a\n")
    proxy.heal()
    assert await streams[0].readexactly(4) == b"a\na\n"


async def test_who_is_refused_can_come_back(proxy: FaultyProxy, dial: Dial) -> None:
    old = await dial(proxy)
    await say(old, b"a\n")
    proxy.refuse()

    assert await is_reset(old)
    with pytest.raises(OSError, match=r"[Cc]onnect"):
        await dial(proxy)
    await proxy.listen()
    assert await say(await dial(proxy), b"b\n") == b"b\nb\n"


async def test_what_is_truncated_ends_after_so_many_bytes(proxy: FaultyProxy, dial: Dial) -> None:
    reader, writer = await dial(proxy)
    writer.write(b"a\n")
    await reader.readexactly(4)
    proxy.truncate(Towards.CLIENT, 3)
    writer.write(b"b\n")

    assert await reader.read() == b"b\nb"


async def test_a_server_that_is_not_there_is_a_reset(dial: Dial) -> None:
    async with faulty_proxy("127.0.0.1:1") as other:
        assert await is_reset(await dial(other))
        await until(lambda: other.connections == 0)
