"""What one peer may cost, reached on real sockets; the others are served as before."""

import asyncio
import socket
import time
from contextlib import suppress

import pytest

from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.frame import encode_frame
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer
from emberq.remoting.server import SWEEP_INTERVAL_MAX_S, _sweep_interval_s
from tests.support.endpoints import ECHO, WORK, connected, echo, endpoint_of, serving
from tests.support.raw_peer import RawPeer, raw_peer
from tests.support.waiting import DEADLINE_S, until

pytestmark = pytest.mark.integration

SOON_S = 0.05


async def is_served(peer: RawPeer) -> bool:
    return (await peer.ask(Command(code=ECHO))).code == 0


async def test_requests_of_one_read_are_answered_with_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepted: list[Connection] = []
    async with serving(endpoint_of(on_open=accepted.append)) as address, raw_peer(address) as peer:
        await is_served(peer)
        transport = accepted[0]._transport
        assert transport is not None
        recording = RecordingTransport(transport)
        monkeypatch.setattr(accepted[0], "_transport", recording)

        # Small enough for one segment, so that it arrives in one read.
        await peer.send(b"".join(encode_frame(Command(code=ECHO, opaque=n)) for n in range(10)))
        answers = [(await peer.receive()).opaque for _ in range(10)]

    assert answers == list(range(10))
    assert len(recording.write_sizes) == 1


class RecordingTransport:
    """Counts the writes on their way to a real transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.write_sizes: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self.write_sizes.append(len(data))
        self._transport.write(data)


async def test_connections_above_the_limit_are_closed_and_room_is_used_again() -> None:
    async with (
        serving(endpoint_of(connections_max=2)) as address,
        raw_peer(address) as first,
        raw_peer(address) as second,
    ):
        assert await is_served(first)
        assert await is_served(second)
        async with raw_peer(address) as third:
            assert await third.received_until_hung_up() == b""
        assert await is_served(first)
        second.close()
        await until_served(address)


async def until_served(address: tuple[str, int]) -> None:
    """The server notices a closed connection a moment later."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            async with raw_peer(address) as peer:
                with suppress(EOFError, ConnectionError):
                    assert await is_served(peer)
                    return


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    endpoint = endpoint_of(idle_max_s=2.0)
    async with (
        serving(endpoint) as address,
        raw_peer(address) as idle,
        raw_peer(address) as silent,
        raw_peer(address) as busy,
    ):
        assert await is_served(idle)

        async def keep_busy() -> None:
            while len(endpoint.connections) > 1:
                assert await is_served(busy)

        async with asyncio.timeout(DEADLINE_S):
            await keep_busy()
        assert await idle.received_until_hung_up() == b""
        assert await silent.received_until_hung_up() == b""
        assert await is_served(busy)


async def test_an_unfinished_frame_is_waited_for_only_so_long() -> None:
    endpoint = endpoint_of(partial_frame_max_s=SOON_S)
    frame = encode_frame(Command(code=ECHO, body=bytes(1000)))
    async with (
        serving(endpoint) as address,
        raw_peer(address) as slow,
        raw_peer(address) as other,
    ):
        assert await is_served(other)
        await slow.send(frame + frame[:500])
        received = await slow.received_until_hung_up()

        assert len(received) > 1000  # the whole frame was answered
        assert await is_served(other)
        assert endpoint.partial_frames_bytes == 0


async def test_an_unfinished_preface_is_waited_for_only_so_long() -> None:
    async with serving(endpoint_of(preface_max_s=SOON_S)) as address:
        for beginning in (b"PROXY TCP4 192.0.2.7", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"):
            async with raw_peer(address) as peer:
                await peer.send(beginning)
                assert await peer.received_until_hung_up() == b""


async def test_a_frame_that_is_too_large_closes_only_its_connection() -> None:
    endpoint = endpoint_of(frame_size_max_bytes=10_000)
    async with (
        serving(endpoint) as address,
        raw_peer(address) as large,
        raw_peer(address) as other,
    ):
        assert await is_served(other)
        await large.send(encode_frame(Command(code=ECHO, body=bytes(10_000)))[:100])

        assert await large.received_until_hung_up() == b""
        assert await is_served(other)


async def test_unfinished_frames_of_all_peers_have_a_common_limit() -> None:
    endpoint = endpoint_of(partial_frames_total_max_bytes=30_000)
    frame = encode_frame(Command(code=ECHO, opaque=5, body=bytes(20_000)))
    async with (
        serving(endpoint) as address,
        raw_peer(address) as first,
        raw_peer(address) as second,
    ):
        await first.send(frame[:-1])
        await until(lambda: endpoint.partial_frames_bytes == len(frame) - 1)
        await second.send(frame[:-1])
        assert await second.received_until_hung_up() == b""

        await first.send(frame[-1:])
        assert (await first.receive()).opaque == 5
        assert endpoint.partial_frames_bytes == 0


async def test_a_peer_that_does_not_read_is_not_read_from_and_others_are() -> None:
    high_bytes = 256 * 1024
    served = 0

    def large(command: Command, connection: Connection) -> Answer:
        nonlocal served
        served += 1
        return answer(command, body=bytes(100_000))

    accepted: list[Connection] = []
    endpoint = endpoint_of(
        {WORK: large},
        on_open=accepted.append,
        write_buffer_high_bytes=high_bytes,
        write_buffer_low_bytes=64 * 1024,
    )
    async with (
        serving(endpoint) as address,
        raw_peer(address, receive_buffer_bytes=4096) as stuck,
        raw_peer(address) as other,
    ):
        assert await is_served(other)
        await stuck.send(b"".join(encode_frame(Command(code=WORK, opaque=n)) for n in range(200)))
        await until(lambda: any(c._is_input_held for c in accepted))
        assert await is_served(other)

        # What the kernel takes is not ours; 200 answers are 20 MB.
        assert served < 150
        held = next(c for c in accepted if c._is_input_held)
        # One mark's worth with the transport, another one collected before it was noticed.
        assert held._unsent_bytes() < 2 * high_bytes + 100_200
        answers = [(await stuck.receive()).opaque for _ in range(200)]
        assert answers == list(range(200))
        assert await is_served(other)


async def test_a_peer_that_never_reads_is_closed_after_its_time() -> None:
    endpoint = endpoint_of(
        {WORK: lambda command, connection: answer(command, body=bytes(1_000_000))},
        write_buffer_high_bytes=64 * 1024,
        write_buffer_low_bytes=1024,
        write_stall_max_s=SOON_S,
    )
    async with (
        serving(endpoint) as address,
        raw_peer(address, receive_buffer_bytes=4096) as stuck,
        raw_peer(address) as other,
    ):
        assert await is_served(other)
        await stuck.send(b"".join(encode_frame(Command(code=WORK)) for _ in range(50)))
        await until(lambda: len(endpoint.connections) == 1)

        assert await is_served(other)


async def test_a_flood_on_one_connection_does_not_keep_another_waiting() -> None:
    """Turn by turn: between two answers to the other peer the flood gets a bounded share."""
    order: list[str] = []

    def note(command: Command, connection: Connection) -> Answer:
        order.append(command.remark or "")
        return None

    async with (
        serving(endpoint_of({WORK: note}, work_per_turn_max_bytes=16 * 1024)) as address,
        raw_peer(address) as flooding,
        raw_peer(address) as modest,
    ):
        assert await is_served(modest)
        flood = encode_frame(Command(code=WORK, remark="flood")) * 20_000
        sending = asyncio.create_task(flooding.send(flood))
        await until(lambda: "flood" in order)
        for _ in range(20):
            await modest.send(Command(code=WORK, remark="modest"))
            assert await is_served(modest)
            order.append("answered")
        shares = "".join(word[0] for word in order).split("m")[1:]
        assert len(shares) == 20
        await sending
        await until(lambda: order.count("flood") == 20_000)

    # One turn is 63 frames of the flood, 256 bytes of work and more each; a few turns pass while
    # the modest peer's bytes travel.
    assert order.index("modest") < 20_000 / 2
    assert max(share.count("f") for share in shares) < 20 * 63


async def test_bytes_of_a_paused_flood_stay_in_the_kernel() -> None:
    """While a handler's answers cannot leave, the sender is stopped by TCP itself."""
    accepted: list[Connection] = []
    endpoint = endpoint_of(
        on_open=accepted.append, write_buffer_high_bytes=64 * 1024, write_buffer_low_bytes=1024
    )
    frame = encode_frame(Command(code=ECHO, body=bytes(50_000)))
    async with (
        serving(endpoint) as address,
        raw_peer(address, receive_buffer_bytes=4096) as stuck,
    ):
        sent = 0
        stuck.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        await until(lambda: accepted)

        def push() -> bool:
            nonlocal sent
            try:
                sent += stuck.socket.send(frame[sent % len(frame) :])
            except BlockingIOError:
                return accepted[0]._is_input_held
            return False

        await until(push)

        connection = accepted[0]
        held = connection._unsent_bytes() + len(connection._decoder._chunk)
        assert held < 1024 * 1024
        assert sent < 64 * 1024 * 1024


async def test_a_client_is_told_apart_from_a_stalled_server() -> None:
    """The deadline of a call ends it although the server took the request and never reads on."""
    async with (
        serving(endpoint_of({WORK: lambda command, connection: None})) as address,
        connected(address) as connection,
    ):
        first = connection.start_call(new_request(WORK), 0.05)
        second = connection.start_call(new_request(ECHO), 10)
        assert (await second).code == 0
        await asyncio.wait([first])
        assert first.exception() is not None


async def lags_of(turns_s: list[float]) -> list[float]:
    """What is taken for the loop's lateness in and after turns that take this long."""
    endpoint = endpoint_of()
    endpoint.registry.add(WORK, echo, wait_max_ms=100)
    lags: list[float] = []
    async with serving(endpoint):
        for turn_s in turns_s:
            await asyncio.sleep(0.001)
            time.sleep(turn_s)  # noqa: ASYNC251 - a handler that blocks the loop looks like this
            for _ in range(4):  # in one of these turns the measuring runs
                await asyncio.sleep(0)
                lags.append(endpoint.loop_lag_ms)
        await until(lambda: endpoint.loop_lag_ms == 0)
    return lags


async def test_a_loop_that_is_late_again_and_again_lets_requests_wait() -> None:
    assert max(await lags_of([0.2] * 5)) > 100


async def test_a_single_stall_is_no_reason_to_refuse_what_follows() -> None:
    # So long that the stalls of a busy machine are none beside it.
    assert max(await lags_of([1.5, 0, 0])) < 500


def test_sweeps_are_frequent_enough_for_the_shortest_limit() -> None:
    limits = endpoint_of(idle_max_s=0.4).limits

    assert _sweep_interval_s(limits) == pytest.approx(0.1)
    assert _sweep_interval_s(endpoint_of().limits) <= SWEEP_INTERVAL_MAX_S
