"""A graceful stop: what is here is answered, what comes is not taken, everything is closed."""

import asyncio
import socket
from contextlib import AsyncExitStack, suppress

import pytest

from emberq.errors import ConnectFailed, ListenFailed
from emberq.protocol.command import Command, answer
from emberq.protocol.frame import FrameDecoder, encode_frame
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.registry import Answer
from emberq.remoting.server import _stop, listening
from tests.support.endpoints import WORK, connected, endpoint_of, serving
from tests.support.raw_peer import raw_peer
from tests.support.waiting import loop_turns, until

pytestmark = pytest.mark.integration


def opaques(stream: bytes) -> list[int]:
    decoder = FrameDecoder()
    decoder.feed(stream)
    return [command.opaque for command in iter(decoder.next, None)]


async def test_requests_in_flight_are_answered_before_connections_close() -> None:
    release = asyncio.Event()

    async def wait(command: Command, connection: Connection) -> Answer:
        await release.wait()
        return answer(command)

    endpoint = endpoint_of({WORK: wait})
    async with AsyncExitStack() as peers:
        async with serving(endpoint) as address:
            peer = await peers.enter_async_context(raw_peer(address))
            await peer.send(Command(code=WORK, opaque=1), Command(code=WORK, opaque=2))
            await until(lambda: endpoint.dispatcher.in_flight == 2)
            asyncio.get_running_loop().call_later(0.02, release.set)

        assert opaques(await peer.received_until_hung_up()) == [1, 2]
    assert endpoint.connections == set()


async def test_work_that_waits_for_its_turn_is_done_and_answered() -> None:
    stopping: list[asyncio.Task[None]] = []

    def stop_at_the_first(command: Command, connection: Connection) -> Answer:
        if not stopping:
            stopping.append(asyncio.ensure_future(_stop(endpoint)))
        return answer(command)

    endpoint = endpoint_of({WORK: stop_at_the_first}, work_per_turn_max_bytes=0)
    async with serving(endpoint) as address, raw_peer(address) as peer:
        await peer.send(b"".join(encode_frame(Command(code=WORK, opaque=n)) for n in range(50)))
        assert opaques(await peer.received_until_hung_up()) == list(range(50))
        await stopping[0]


async def test_answers_that_are_still_in_the_buffer_leave() -> None:
    endpoint = endpoint_of(
        {WORK: lambda command, connection: answer(command, body=bytes(5_000_000))}
    )
    async with (
        serving(endpoint) as address,
        raw_peer(address, receive_buffer_bytes=4096) as peer,
    ):
        await peer.send(Command(code=WORK))
        await until(lambda: any(c._unsent_bytes() > 0 for c in endpoint.connections))
        reading = asyncio.create_task(peer.receive())
        await loop_turns(1)
        stopping = asyncio.create_task(_stop(endpoint))
        assert len((await reading).body) == 5_000_000
        await stopping


async def test_new_requests_are_not_taken_while_stopping() -> None:
    release = asyncio.Event()
    served: list[int] = []

    async def wait(command: Command, connection: Connection) -> Answer:
        served.append(command.opaque)
        await release.wait()
        return answer(command)

    endpoint = endpoint_of({WORK: wait})
    async with serving(endpoint) as address, raw_peer(address) as peer:
        await peer.send(Command(code=WORK, opaque=1))
        await until(lambda: served)
        stopping = asyncio.create_task(_stop(endpoint))
        await loop_turns(3)
        await peer.send(Command(code=WORK, opaque=2))
        await loop_turns(3)
        release.set()
        assert opaques(await peer.received_until_hung_up()) == [1]
        await stopping

    assert served == [1]


async def test_a_handler_that_does_not_end_is_cancelled_when_the_grace_is_over() -> None:
    cancelled: list[bool] = []

    async def wait(command: Command, connection: Connection) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        return None

    endpoint = endpoint_of({WORK: wait}, stop_grace_s=0.05)
    async with AsyncExitStack() as peers:
        async with serving(endpoint) as address:
            peer = await peers.enter_async_context(raw_peer(address))
            await peer.send(Command(code=WORK))
            await until(lambda: endpoint.dispatcher.in_flight)

        assert cancelled == [True]
        assert await peer.received_until_hung_up() == b""


async def test_a_peer_that_does_not_read_does_not_hold_up_the_stop() -> None:
    endpoint = endpoint_of(
        {WORK: lambda command, connection: answer(command, body=bytes(10_000_000))},
        stop_grace_s=0.05,
    )
    async with AsyncExitStack() as peers:
        async with serving(endpoint) as address:
            peer = await peers.enter_async_context(raw_peer(address, receive_buffer_bytes=4096))
            await peer.send(Command(code=WORK))
            await until(lambda: any(c._unsent_bytes() > 0 for c in endpoint.connections))

        assert endpoint.connections == set()


async def test_silent_and_half_greeted_peers_do_not_hold_up_the_stop() -> None:
    endpoint = endpoint_of(stop_grace_s=60)
    async with asyncio.timeout(15):
        async with (
            serving(endpoint) as address,
            raw_peer(address),
            raw_peer(address) as half,
            connected(address),
        ):
            await half.send(b"PROXY TCP4 192.0.2.7")
            await until(lambda: len(endpoint.connections) == 3)
            for connection in endpoint.connections:
                connection.send_oneway(Command(code=WORK))  # waits for a greeting
    assert endpoint.connections == set()


@pytest.mark.parametrize("turns", range(4))
async def test_peers_that_come_as_the_server_closes_are_hung_up_on(turns: int) -> None:
    endpoint = endpoint_of()
    async with AsyncExitStack() as peers:
        async with serving(endpoint) as address:
            for _ in range(4):
                peers.enter_context(late := socket.create_connection(address))
            await loop_turns(turns)  # accepted or not, connections made or not
        await loop_turns(10)

        assert endpoint.connections == set()
        late.settimeout(5)
        with suppress(ConnectionResetError):
            assert late.recv(1) == b""


async def test_after_the_stop_nobody_listens_and_the_port_is_free() -> None:
    async with serving(endpoint_of()) as address:
        pass

    with pytest.raises(ConnectFailed):
        await connect(*address, Endpoint())
    async with listening(endpoint_of(), *address) as again:
        assert again == address


async def test_a_failure_inside_the_block_stops_the_server_too() -> None:
    endpoint = endpoint_of()

    with pytest.raises(RuntimeError, match="of the owner"):
        async with serving(endpoint) as address, connected(address):
            raise RuntimeError("of the owner")

    assert endpoint.connections == set()


@pytest.mark.parametrize("host", ["127.0.0.1", "host.invalid", "a" * 70, "256.256.256.256"])
async def test_an_address_that_cannot_be_had_is_named(host: str) -> None:
    async with serving(endpoint_of()) as (_, taken):
        with pytest.raises(ListenFailed, match=rf"cannot listen on {host}:{taken}: .+"):
            async with listening(endpoint_of(), host, taken):
                pass


async def test_a_port_that_is_none_is_named() -> None:
    with pytest.raises(ListenFailed, match=r"cannot listen on 127\.0\.0\.1:70000: a port is"):
        async with listening(endpoint_of(), "127.0.0.1", 70000):
            pass
