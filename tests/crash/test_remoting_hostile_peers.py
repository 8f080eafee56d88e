"""Hostile and broken peers, many at once: the good ones are served, and nothing is left behind."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvloop

from emberq.protocol.command import Command, HeaderEncoding, answer
from emberq.protocol.frame import FRAME_SIZE_MAX_BYTES, encode_frame
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.remoting.tls import ServerTls, TlsSettings
from tests.support.endpoints import ECHO, WORK, Address, endpoint_of, serving
from tests.support.raw_peer import RawPeer, raw_peer
from tests.support.waiting import DEADLINE_S, until

pytestmark = pytest.mark.crash

SEED = 20_261_116
HUNG_UP_SOON_S = 0.1

Run = Callable[[Coroutine[Any, Any, None]], None]
Attack = Callable[[RawPeer, Random], Awaitable[None]]


@pytest.fixture(
    params=[asyncio.SelectorEventLoop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def run(request: pytest.FixtureRequest) -> Run:
    """Run a scenario on one of the loops; what only the loop hears of fails the test."""

    def run_scenario(scenario: Coroutine[Any, Any, None]) -> None:
        troubles: list[object] = []
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.get_loop().set_exception_handler(
                lambda _, context: troubles.append(context.get("exception") or context)
            )
            runner.run(scenario)
        assert troubles == []

    return run_scenario


def hostile_endpoint(**limits: Any) -> Endpoint:
    """Limits so tight that every attack meets its own within a moment."""
    tight = {
        "frame_size_max_bytes": 1024 * 1024,
        "write_buffer_high_bytes": 128 * 1024,
        "write_buffer_low_bytes": 32 * 1024,
        "write_buffer_max_bytes": 4 * 1024 * 1024,
        "write_stall_max_s": HUNG_UP_SOON_S,
        "partial_frame_max_s": HUNG_UP_SOON_S,
        "preface_max_s": HUNG_UP_SOON_S,
        "partial_frames_total_max_bytes": 8 * 1024 * 1024,
        "idle_max_s": 5 * HUNG_UP_SOON_S,
    }
    tls = ServerTls(TlsSettings())
    tls.context()  # the first one imports much: on a busy machine good peers would seem idle
    return endpoint_of(
        {WORK: lambda command, connection: answer(command, body=bytes(500_000))},
        tls=tls,
        **(tight | limits),
    )


@asynccontextmanager
async def served_throughout(address: Address) -> AsyncIterator[None]:
    """A good peer asks all the time and is answered right, whatever happens in the block."""
    is_over = False
    count = 0

    async def ask() -> None:
        nonlocal count
        async with raw_peer(address) as peer:
            while not is_over:
                count += 1
                encoding = HeaderEncoding(count % 2)
                request = Command(code=ECHO, opaque=count, body=b"good", encoding=encoding)
                response = await peer.ask(request)
                assert (response.opaque, response.body) == (count, b"good")
                await asyncio.sleep(0)

    asking = asyncio.create_task(ask())
    await until(lambda: count > 1)
    before = count
    try:
        yield
        await until(lambda: count > before + 2 or asking.done())
    finally:
        is_over = True
        await asking


# Attacks. Each returns when the server has hung up, or hangs up itself.


async def send_garbage(peer: RawPeer, random: Random) -> None:
    await peer.send(b"\xff" + random.randbytes(random.randrange(8, 5000)))
    await peer.received_until_hung_up()


async def announce_the_largest_frame_and_stop(peer: RawPeer, random: Random) -> None:
    await peer.send((1024 * 1024 - 4).to_bytes(4, "big") + random.randbytes(1000))
    await peer.received_until_hung_up()


async def announce_too_large_a_frame(peer: RawPeer, random: Random) -> None:
    await peer.send(FRAME_SIZE_MAX_BYTES.to_bytes(4, "big") + bytes(4))
    await peer.received_until_hung_up()


async def say_nothing(peer: RawPeer, random: Random) -> None:
    await peer.received_until_hung_up()


async def trickle_a_frame(peer: RawPeer, random: Random) -> None:
    with suppress(ConnectionError):
        for byte in encode_frame(Command(code=ECHO, body=bytes(100_000))):
            await peer.send(bytes([byte]))
            await asyncio.sleep(0.001)


async def ask_much_and_read_nothing(peer: RawPeer, random: Random) -> None:
    await peer.send(b"".join(encode_frame(Command(code=WORK, opaque=n)) for n in range(100)))
    await wait_until_closed_without_reading(peer)


async def wait_until_closed_without_reading(peer: RawPeer) -> None:
    """A reset reaches us although nobody reads."""
    with suppress(ConnectionError):
        async with asyncio.timeout(DEADLINE_S):
            while True:
                peer.socket.send(b"\0\0\0\4\0\0\0\0")
                await asyncio.sleep(0.01)


async def begin_tls_and_stop(peer: RawPeer, random: Random) -> None:
    await peer.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    await peer.received_until_hung_up()


async def send_garbage_as_tls(peer: RawPeer, random: Random) -> None:
    await peer.send(b"\x16\x03\x03\x00\x40" + random.randbytes(200))
    await peer.received_until_hung_up()


async def begin_a_proxy_line_and_stop(peer: RawPeer, random: Random) -> None:
    await peer.send(b"PROXY TCP4 "[: random.randrange(1, 11)])
    await peer.received_until_hung_up()


async def send_a_long_proxy_header_byte_by_byte(peer: RawPeer, random: Random) -> None:
    with suppress(ConnectionError):
        await peer.send(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff")
        while True:
            await peer.send(b"x")
            await asyncio.sleep(0.001)


async def reset_within_a_frame(peer: RawPeer, random: Random) -> None:
    frame = encode_frame(Command(code=ECHO, body=bytes(1000)))
    await peer.send(frame + frame[: random.randrange(1, len(frame))])
    peer.reset()


async def reset_while_being_answered(peer: RawPeer, random: Random) -> None:
    await peer.send(b"".join(encode_frame(Command(code=WORK)) for _ in range(20)))
    await peer.receive_bytes()
    peer.reset()


async def answer_what_nobody_asked(peer: RawPeer, random: Random) -> None:
    for opaque in range(500):
        await peer.send(Command(flag=1, opaque=opaque, body=bytes(100)))
    assert (await peer.ask(Command(code=ECHO, opaque=7))).opaque == 7


async def send_damaged_frames(peer: RawPeer, random: Random) -> None:
    frame = bytearray(encode_frame(Command(code=ECHO, fields={"a": "b"}, body=b"body")))
    with suppress(ConnectionError):
        for _ in range(50):
            damaged = bytearray(frame)
            damaged[random.randrange(4, len(frame))] = random.randrange(256)
            await peer.send(bytes(damaged))
        peer.socket.shutdown(1)
    await peer.received_until_hung_up()


ATTACKS: tuple[Attack, ...] = (
    send_garbage,
    announce_the_largest_frame_and_stop,
    announce_too_large_a_frame,
    say_nothing,
    trickle_a_frame,
    ask_much_and_read_nothing,
    begin_tls_and_stop,
    send_garbage_as_tls,
    begin_a_proxy_line_and_stop,
    send_a_long_proxy_header_byte_by_byte,
    reset_within_a_frame,
    reset_while_being_answered,
    answer_what_nobody_asked,
    send_damaged_frames,
)


async def attack_with(address: Address, attack: Attack, seed: int) -> None:
    async with raw_peer(address, receive_buffer_bytes=4096) as peer:
        await attack(peer, Random(seed))


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_ends_by_itself_and_others_are_served(run: Run, attack: Attack) -> None:
    async def scenario() -> None:
        endpoint = hostile_endpoint()
        async with serving(endpoint) as address, served_throughout(address):
            await attack_with(address, attack, SEED)
            await until(lambda: len(endpoint.connections) == 1)
            assert endpoint.partial_frames_bytes == 0

    run(scenario())


def test_all_attacks_at_once_leave_neither_memory_nor_descriptors_behind(run: Run) -> None:
    async def scenario() -> None:
        endpoint = hostile_endpoint()
        async with serving(endpoint) as address:
            await storm(endpoint, address)  # fills caches, pools and arenas once
            settled = footprint()
            for _ in range(3):
                await storm(endpoint, address)
            blocks, descriptors = footprint()

        assert descriptors <= settled[1]
        assert blocks - settled[0] < 2_000

    run(scenario())


async def storm(endpoint: Endpoint, address: Address) -> None:
    async with served_throughout(address):
        await asyncio.gather(
            *(
                attack_with(address, attack, SEED + number)
                for number, attack in enumerate(ATTACKS * 4)
            )
        )
        await until(lambda: len(endpoint.connections) == 1)
    await until(lambda: not endpoint.connections)
    assert endpoint.partial_frames_bytes == 0
    assert endpoint.dispatcher.in_flight == 0


def footprint() -> tuple[int, int]:
    """Blocks of the interpreter's allocator, and open descriptors."""
    gc.collect()
    return sys.getallocatedblocks(), len(list(Path("/dev/fd").iterdir()))


def test_a_crowd_that_reads_nothing_costs_no_more_than_its_limits(run: Run) -> None:
    high_bytes, answer_bytes, count = 256 * 1024, 500_000, 20

    async def scenario() -> None:
        endpoint = hostile_endpoint(
            write_buffer_high_bytes=high_bytes, write_stall_max_s=60, idle_max_s=60
        )
        async with serving(endpoint) as address, served_throughout(address):
            crowd = [raw_peer(address, receive_buffer_bytes=4096) for _ in range(count)]
            for context in crowd:
                peer = await context.__aenter__()
                await peer.send(b"".join(encode_frame(Command(code=WORK)) for _ in range(100)))
            await until(lambda: sum(c._is_input_held for c in endpoint.connections) == count)

            # Unbounded, 20 peers with 100 answers each would be a gigabyte.
            unsent = sum(c._unsent_bytes() for c in endpoint.connections)
            assert unsent < count * (2 * high_bytes + answer_bytes + 1000)
            for context in crowd:
                await context.__aexit__(None, None, None)

    run(scenario())


def test_a_crowd_that_finishes_no_frame_costs_no_more_than_its_limit(run: Run) -> None:
    total_max_bytes, beginning, crowd = 1024 * 1024, bytes(100_000), 30

    async def scenario() -> None:
        endpoint = hostile_endpoint(
            partial_frames_total_max_bytes=total_max_bytes, partial_frame_max_s=60
        )
        samples, come = [0], [0]

        def was_crowded() -> bool:
            """At any time: what one peer sees may be dropped before the next one looks."""
            samples.append(endpoint.partial_frames_bytes)
            return come[0] == crowd and max(samples) > total_max_bytes / 2

        async def begin(peer: RawPeer, random: Random) -> None:
            with suppress(ConnectionError):
                await peer.send((500_000).to_bytes(4, "big") + bytes(4) + beginning)
            come[0] += 1
            await until(was_crowded)

        async with serving(endpoint) as address, served_throughout(address):
            await asyncio.gather(*(attack_with(address, begin, n) for n in range(crowd)))
            assert max(samples) <= total_max_bytes
            await until(lambda: endpoint.partial_frames_bytes == 0)

    run(scenario())


def test_connections_come_and_go_by_the_hundreds(run: Run) -> None:
    async def come_and_go(address: Address, number: int) -> None:
        async with raw_peer(address) as peer:
            if number % 3 == 0:
                peer.reset()
            elif number % 3 == 1:
                await peer.ask(Command(code=ECHO))

    async def scenario() -> None:
        opened: list[Connection] = []
        closed: list[Connection] = []
        endpoint = hostile_endpoint()
        endpoint.on_open, endpoint.on_close = opened.append, closed.append
        async with serving(endpoint) as address, served_throughout(address):
            for start in range(0, 600, 50):
                await asyncio.gather(*(come_and_go(address, start + n) for n in range(50)))
            await until(lambda: len(endpoint.connections) == 1)
        assert len(opened) == len(closed)
        assert set(opened) == set(closed)

    run(scenario())
