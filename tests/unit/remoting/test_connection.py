"""One connection over a transport without a socket: what it writes, when it reads, when it ends."""

import asyncio
import logging
from typing import Any

import pytest

from emberq.errors import (
    CallTimeout,
    ConnectionClosed,
    FrameTooLarge,
    RequestRejected,
    TooManyPendingCalls,
)
from emberq.protocol.command import Command, HeaderEncoding, answer, new_request
from emberq.protocol.frame import encode_frame
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from tests.support.endpoints import ECHO, WORK, endpoint_of
from tests.support.fake_transport import FakeTransport
from tests.support.waiting import loop_turns

pytestmark = pytest.mark.usefixtures("silent_log")

SMALL: dict[str, Any] = {
    "frame_size_max_bytes": 4096,
    "work_per_turn_max_bytes": 8 * 1024,
    "write_buffer_high_bytes": 2048,
    "write_buffer_low_bytes": 512,
    "write_buffer_max_bytes": 16 * 1024,
    "partial_frames_total_max_bytes": 3000,
}


@pytest.fixture
def silent_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "emberq.remoting")


def open_connection(
    endpoint: Endpoint | None = None, **limits: Any
) -> tuple[Connection, FakeTransport]:
    """An accepted connection and the transport under it."""
    endpoint = endpoint or endpoint_of(**limits)
    connection, transport = Connection(endpoint), FakeTransport()
    transport.attach(connection)
    return connection, transport


def open_client(endpoint: Endpoint | None = None) -> tuple[Connection, FakeTransport]:
    connection = Connection(endpoint or endpoint_of(), is_accepted=False)
    transport = FakeTransport()
    transport.attach(connection)
    return connection, transport


def request(opaque: int = 0, body: bytes = b"", code: int = ECHO) -> bytes:
    return encode_frame(Command(code=code, opaque=opaque, body=body))


def opaques(transport: FakeTransport) -> list[int]:
    return [command.opaque for command in transport.commands]


# Writes


@pytest.mark.parametrize("count", [1, 2, 20])
async def test_all_requests_of_one_read_are_answered_with_one_write(count: int) -> None:
    connection, transport = open_connection()

    connection.data_received(b"".join(request(n, b"body") for n in range(count)))

    assert len(transport.writes) == 1
    assert opaques(transport) == list(range(count))


async def test_large_answers_of_one_read_leave_with_one_call_too() -> None:
    connection, transport = open_connection(work_per_turn_max_bytes=10**7)

    connection.data_received(b"".join(request(n, bytes(100_000)) for n in range(5)))

    assert len(transport.writes) == 1
    assert opaques(transport) == [0, 1, 2, 3, 4]


async def test_calls_of_one_turn_leave_with_one_write() -> None:
    connection, transport = open_client()

    calls = [connection.start_call(new_request(ECHO), 5) for _ in range(10)]
    await loop_turns(2)

    assert len(transport.writes) == 1
    assert len(transport.commands) == 10
    connection.abort()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_answers_of_async_handlers_that_end_in_one_turn_leave_with_one_write() -> None:
    gate = asyncio.Event()

    async def wait(command: Command, connection: Connection) -> Command:
        await gate.wait()
        return answer(command)

    connection, transport = open_connection(endpoint_of({WORK: wait}))
    connection.data_received(b"".join(request(n, code=WORK) for n in range(10)))
    await loop_turns(2)
    gate.set()
    await loop_turns(3)

    assert len(transport.writes) == 1
    assert opaques(transport) == list(range(10))


@pytest.mark.parametrize("encoding", HeaderEncoding)
async def test_an_answer_has_the_encoding_of_its_request(encoding: HeaderEncoding) -> None:
    connection, transport = open_connection()

    connection.data_received(encode_frame(Command(code=ECHO, fields={"a": "b"}, encoding=encoding)))

    assert transport.commands[0].encoding is encoding
    assert transport.commands[0].fields == {"a": "b"}


async def test_nothing_is_written_before_the_peer_has_shown_what_it_speaks() -> None:
    connection, transport = open_connection()

    connection.send_oneway(new_request(WORK))
    await loop_turns(3)
    assert transport.writes == []
    assert not connection.is_busy

    connection.data_received(request(7))
    assert [command.code for command in transport.commands] == [WORK, 0]


async def test_answers_after_the_end_are_dropped() -> None:
    connection, transport = open_connection()
    connection.data_received(request(1))
    connection.close()
    await connection.closed

    connection.send_answer(Command(), answer(Command(opaque=2)))
    await loop_turns(2)

    assert opaques(transport) == [1]
    with pytest.raises(ConnectionClosed):
        connection.send_oneway(new_request(ECHO))
    with pytest.raises(ConnectionClosed):
        connection.start_call(new_request(ECHO), 1)


@pytest.mark.parametrize(
    "broken",
    [
        answer(Command(), fields={"a": 1}),  # type: ignore[dict-item]  # a handler's mistake
        answer(Command(), fields={"k" * 40_000: "v"}),
        answer(Command(), body=bytes(17 * 1024 * 1024)),
    ],
    ids=["number as field", "key too long", "body too large"],
)
async def test_an_answer_that_makes_no_frame_is_replaced_by_one_that_says_so(
    broken: Command,
) -> None:
    broken.encoding = HeaderEncoding.BINARY

    def fail(command: Command, connection: Connection) -> Command:
        return broken

    connection, transport = open_connection(endpoint_of({WORK: fail}))
    connection.data_received(request(5, code=WORK) + request(6))

    first, second = transport.commands
    assert (first.opaque, first.code) == (5, 1)
    assert first.remark is not None
    assert first.remark.startswith("the answer is no frame")
    assert (second.opaque, second.code) == (6, 0)


# A peer that does not read


async def test_a_peer_that_does_not_read_is_served_no_further_than_the_high_mark() -> None:
    served = []

    def large(command: Command, connection: Connection) -> Command:
        served.append(command.opaque)
        return answer(command, body=bytes(1000))

    endpoint = endpoint_of({WORK: large}, **SMALL)
    connection, transport = open_connection(endpoint)
    transport.is_stuck = True

    connection.data_received(b"".join(request(n, code=WORK) for n in range(20)))

    assert transport.buffered_bytes < SMALL["write_buffer_high_bytes"] + 2 * 1200
    assert len(served) < 5
    assert not transport.is_reading()

    transport.unstick()
    await loop_turns(3)

    assert opaques(transport) == list(range(20))
    assert transport.is_reading()


async def test_requests_that_come_while_the_peer_does_not_read_wait() -> None:
    connection, transport = open_connection(endpoint_of(**SMALL))
    transport.is_stuck = True
    connection.data_received(request(0, bytes(3000)))
    assert not transport.is_reading() or transport.buffered_bytes > SMALL["write_buffer_high_bytes"]

    connection.data_received(request(1))
    assert opaques(transport) == [0]
    assert not transport.is_reading()

    transport.unstick()
    await loop_turns(2)
    assert opaques(transport) == [0, 1]


async def test_the_side_that_connected_reads_on_while_its_peer_does_not() -> None:
    connection, transport = open_client(endpoint_of(**SMALL))
    transport.is_stuck = True
    call = connection.start_call(new_request(ECHO, body=bytes(3000)), 5)
    await loop_turns(2)
    assert transport.buffered_bytes > SMALL["write_buffer_high_bytes"]

    connection.data_received(encode_frame(answer(transport.commands[0], body=b"done")))

    assert (await call).body == b"done"
    assert transport.is_reading()


async def test_above_the_maximum_calls_are_refused_and_answers_end_the_connection() -> None:
    connection, transport = open_client(endpoint_of(**SMALL))
    transport.is_stuck = True

    while transport.buffered_bytes <= SMALL["write_buffer_max_bytes"]:
        connection.send_oneway(new_request(ECHO, body=bytes(3000)))
        await loop_turns(1)
    with pytest.raises(TooManyPendingCalls):
        connection.send_oneway(new_request(ECHO))
    assert not transport.is_closing()

    connection.send_answer(Command(), answer(Command(), body=bytes(3000)))
    await loop_turns(2)
    assert transport.is_aborted


# Turns


async def test_a_turn_ends_after_its_share_and_the_rest_waits_for_the_next() -> None:
    connection, transport = open_connection(endpoint_of(**SMALL))
    turns: list[int] = []

    connection.data_received(b"".join(request(n, bytes(100)) for n in range(60)))
    while len(turns) < 20 and len(transport.commands) < 60:
        turns.append(len(transport.commands))
        assert not transport.is_reading()
        await loop_turns(1)

    # 8 KiB of work are 24 requests of 100 bytes, a header counted as 256.
    assert turns == [24, 48]
    assert opaques(transport) == list(range(60))
    assert transport.is_reading()


async def test_a_turn_that_takes_too_long_ends_after_one_request() -> None:
    endpoint = endpoint_of(work_per_turn_max_ms=0)
    connection, transport = open_connection(endpoint)

    connection.data_received(request(0) + request(1) + request(2))

    assert opaques(transport) == [0]
    await loop_turns(4)
    assert opaques(transport) == [0, 1, 2]


async def test_while_others_wait_a_flood_has_a_few_requests_served_and_quiet_peers_all() -> None:
    endpoint = endpoint_of(
        work_per_turn_max_bytes=64 * 1024,
        crowded_work_max_bytes=1024,
        crowded_work_max_ms=60_000.0,
        backlog_per_turn_max_ms=0.0,
    )
    waiting, first = open_connection(endpoint)
    flooding, second = open_connection(endpoint)
    quiet, third = open_connection(endpoint)

    waiting.data_received(b"".join(map(request, range(1_000))))
    flooding.data_received(b"".join(map(request, range(100))))
    quiet.data_received(request(7))

    assert 200 < len(opaques(first)) < 1_000
    assert 0 < len(opaques(second)) < 10
    assert opaques(third) == [7]
    await loop_turns(10)
    assert opaques(first) == list(range(1_000))
    assert opaques(second) == list(range(100))


# Damage


async def test_what_came_before_the_damage_is_answered_and_what_comes_after_is_not_served() -> None:
    connection, transport = open_connection()

    connection.data_received(request(1) + b"\0\0\0\6\2\0\0\2{}" + request(2))
    await connection.closed

    assert opaques(transport) == [1]
    assert connection.close_reason == "unknown header encoding 2"


async def test_a_handler_that_closes_the_connection_is_the_last_to_run() -> None:
    def close(command: Command, connection: Connection) -> None:
        connection.close()

    connection, transport = open_connection(endpoint_of({WORK: close}))

    connection.data_received(request(1) + request(code=WORK) + request(2))
    await connection.closed

    assert opaques(transport) == [1]


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_work_that_waits_for_its_turn_is_forgotten_at_the_end(end: str) -> None:
    connection, transport = open_connection(endpoint_of(**SMALL))
    connection.data_received(b"".join(request(n, bytes(100)) for n in range(60)))

    getattr(connection, end)()
    await connection.closed
    await loop_turns(3)

    assert len(transport.commands) == 24
    assert not connection.is_busy


# Unfinished frames


async def test_a_frame_unfinished_for_too_long_is_overdue_however_it_trickles() -> None:
    connection, _ = open_connection(partial_frame_max_s=60, idle_max_s=1000)
    now = asyncio.get_running_loop().time()
    frame = request(1, bytes(100))

    for position in range(20):
        connection.data_received(frame[position : position + 1])

    assert connection.overdue_reason(now + 59) is None
    assert connection.overdue_reason(now + 62) == "unfinished_frame"


async def test_a_steady_stream_whose_reads_end_within_frames_is_never_overdue() -> None:
    connection, transport = open_connection()
    loop = asyncio.get_running_loop()
    stream = b"".join(request(n) for n in range(100))
    now = loop.time()
    connection.data_received(stream[:150])
    connection._partial_since -= 59  # as if that had been 59 s ago

    connection.data_received(stream[150:300])

    assert len(transport.commands) == 300 // len(request())
    assert connection.overdue_reason(now + 58) is None


async def test_bytes_of_unfinished_frames_are_counted_until_they_are_not_there_any_more() -> None:
    endpoint = endpoint_of()
    first, _ = open_connection(endpoint)
    second, _ = open_connection(endpoint)
    third, _ = open_connection(endpoint)
    frame = request(1, bytes(1000))

    for connection in (first, second, third):
        connection.data_received(frame[:500])
        connection.data_received(frame[500:600])
    assert endpoint.partial_frames_bytes == 1800

    first.data_received(frame[600:])
    assert endpoint.partial_frames_bytes == 1200
    second.abort()
    assert endpoint.partial_frames_bytes == 600
    third.data_received(frame[600:] + b"\xff" * 8)
    assert endpoint.partial_frames_bytes == 0
    await asyncio.gather(second.closed, third.closed)
    assert endpoint.partial_frames_bytes == 0


async def test_who_passes_the_total_of_unfinished_frames_is_dropped_and_nobody_else() -> None:
    endpoint = endpoint_of(**SMALL)
    patient, patient_transport = open_connection(endpoint)
    greedy, greedy_transport = open_connection(endpoint)
    third, third_transport = open_connection(endpoint)
    frame = request(1, bytes(3000))

    patient.data_received(frame[:1500])
    greedy.data_received(frame[:1400])
    third.data_received(frame[:200])

    assert third_transport.is_closing()
    assert not greedy_transport.is_closing()
    assert endpoint.partial_frames_bytes == 2900
    patient.data_received(frame[1500:])
    greedy.data_received(frame[1400:])
    assert opaques(patient_transport) == opaques(greedy_transport) == [1]


async def test_a_whole_frame_passes_while_others_hold_the_total() -> None:
    endpoint = endpoint_of(**SMALL)
    endpoint.partial_frames_bytes = SMALL["partial_frames_total_max_bytes"] + 1
    connection, transport = open_connection(endpoint)

    connection.data_received(request(1))

    assert opaques(transport) == [1]
    assert not transport.is_closing()


async def test_a_frame_above_the_limit_is_neither_read_nor_written() -> None:
    connection, transport = open_connection(endpoint_of(**SMALL))
    with pytest.raises(FrameTooLarge):
        connection.send_oneway(new_request(ECHO, body=bytes(5000)))

    connection.data_received(request(1) + request(2, bytes(5000))[:8])

    assert transport.is_closing()
    assert opaques(transport) == [1]


# Overdue


async def test_a_connection_is_idle_after_silence_in_both_directions() -> None:
    connection, _ = open_connection(idle_max_s=120)
    now = asyncio.get_running_loop().time()

    assert connection.overdue_reason(now + 119) is None
    assert connection.overdue_reason(now + 121) == "idle"


async def test_a_connection_with_a_request_at_work_is_not_idle() -> None:
    gate = asyncio.Event()

    async def wait(command: Command, connection: Connection) -> Command:
        await gate.wait()
        return answer(command)

    connection, transport = open_connection(endpoint_of({WORK: wait}))
    connection.data_received(request(1, code=WORK))
    now = asyncio.get_running_loop().time()
    assert connection.overdue_reason(now + 1000) is None

    gate.set()
    await loop_turns(3)
    assert opaques(transport) == [1]
    assert connection.overdue_reason(now + 1000) == "idle"


async def test_a_peer_that_does_not_read_is_overdue_after_its_time() -> None:
    connection, transport = open_connection(
        write_buffer_high_bytes=10,
        write_buffer_low_bytes=0,
        write_stall_max_s=60,
        idle_max_s=1000,
    )
    transport.is_stuck = True
    connection.data_received(request(1))
    now = asyncio.get_running_loop().time()

    assert connection.overdue_reason(now + 59) is None
    assert connection.overdue_reason(now + 61) == "peer_does_not_read"
    transport.unstick()
    assert connection.overdue_reason(now + 61) is None


async def test_an_unfinished_preface_is_overdue_early_and_silence_late() -> None:
    connection, _ = open_connection(preface_max_s=10, idle_max_s=120)
    now = asyncio.get_running_loop().time()
    assert connection.overdue_reason(now + 11) is None

    connection.data_received(b"PROXY TCP4")

    assert connection.overdue_reason(now + 9) is None
    assert connection.overdue_reason(now + 11) == "no_handshake"


# PROXY headers

PROXY_V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 9876\r\n"


async def test_a_proxy_header_torn_at_any_byte_names_the_peer() -> None:
    stream = PROXY_V1 + request(1)

    for cut in range(1, len(stream)):
        connection, transport = open_connection()
        connection.data_received(stream[:cut])
        connection.data_received(stream[cut:])
        assert connection.peer == "192.0.2.7:40000"
        assert opaques(transport) == [1]


@pytest.mark.parametrize("is_joined", [True, False])
async def test_a_second_proxy_header_is_not_believed(is_joined: bool) -> None:
    connection, transport = open_connection()
    forged = PROXY_V1.replace(b"192.0.2.7", b"127.0.0.1")

    for piece in [PROXY_V1 + forged] if is_joined else [PROXY_V1, forged]:
        connection.data_received(piece)

    assert connection.peer == "192.0.2.7:40000"
    assert transport.is_closing()


@pytest.mark.parametrize("garbage", [b"PROXY WHAT\r\n", b"PROXY " + b"x" * 200, b"\r\n\r\nx" * 3])
async def test_garbage_that_begins_like_a_proxy_header_ends_the_connection(garbage: bytes) -> None:
    connection, transport = open_connection()

    connection.data_received(garbage)

    assert transport.is_closing()
    assert transport.writes == []


async def test_tls_bytes_without_tls_end_the_connection() -> None:
    connection, transport = open_connection()

    connection.data_received(b"\x16\x03\x01")

    assert transport.is_closing()
    assert connection.close_reason == "TLS is disabled here"


# Calls


async def test_a_call_is_answered_by_its_opaque_only() -> None:
    connection, transport = open_client()
    call = connection.start_call(new_request(ECHO), 5)
    await loop_turns(1)
    (sent,) = transport.commands

    stranger = Command(opaque=sent.opaque + 1000)
    connection.data_received(encode_frame(answer(stranger, 1)))
    assert not call.done()
    connection.data_received(encode_frame(answer(sent, 0, "mine")))

    assert (await call).remark == "mine"


async def test_a_second_answer_to_a_call_is_dropped() -> None:
    connection, transport = open_client()
    call = connection.start_call(new_request(ECHO), 5)
    await loop_turns(1)
    (sent,) = transport.commands

    connection.data_received(
        encode_frame(answer(sent, 0, "a")) + encode_frame(answer(sent, 0, "b"))
    )

    assert (await call).remark == "a"
    assert not transport.is_closing()


async def test_each_call_ends_at_its_own_deadline() -> None:
    connection, _ = open_client()
    late = connection.start_call(new_request(ECHO), 30)
    soon = connection.start_call(new_request(ECHO), 0.01)
    sooner = connection.start_call(new_request(ECHO), 0)

    for call in (sooner, soon):
        with pytest.raises(CallTimeout):
            await call
    assert not late.done()

    connection.abort()
    with pytest.raises(ConnectionClosed):
        await late


async def test_a_cancelled_call_leaves_nothing_behind() -> None:
    connection, transport = open_client()
    task = asyncio.create_task(connection.call(new_request(ECHO), 30))
    await loop_turns(2)
    task.cancel()
    await asyncio.wait([task])

    assert len(connection._pending) == 0
    connection.data_received(encode_frame(answer(transport.commands[0])))
    assert not transport.is_closing()


async def test_more_calls_than_the_limit_are_refused_and_not_sent() -> None:
    connection, transport = open_client(endpoint_of(pending_calls_max=2))
    calls = [connection.start_call(new_request(ECHO), 30) for _ in range(2)]

    with pytest.raises(TooManyPendingCalls):
        connection.start_call(new_request(ECHO), 30)
    await loop_turns(2)
    assert len(transport.commands) == 2

    connection.data_received(encode_frame(answer(transport.commands[0])))
    await calls[0]
    calls.append(connection.start_call(new_request(ECHO), 30))
    connection.abort()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_call_whose_request_is_no_frame_is_not_pending() -> None:
    connection, _ = open_client()

    with pytest.raises(FrameTooLarge):
        connection.start_call(new_request(ECHO, body=bytes(17 * 1024 * 1024)), 30)

    assert len(connection._pending) == 0


async def test_the_end_of_a_connection_ends_its_calls_with_the_reason() -> None:
    connection, _ = open_client()
    call = connection.start_call(new_request(ECHO), 30)

    connection.data_received(b"\xff" * 8)

    with pytest.raises(ConnectionClosed, match=r"10\.0\.0\.1:50000 closed: frame of 4294967295"):
        await call


class Recorder:
    """A hook that writes down what it sees, and fails where it is told to."""

    def __init__(self, failing: str = "") -> None:
        self.seen: list[tuple[str, int, int | None]] = []
        self._failing = failing

    def before(self, peer: str, request: Command) -> None:
        self.seen.append(("before", request.code, None))
        if self._failing == "before":
            raise RequestRejected(16, "not you")

    def after(self, peer: str, request: Command, response: Command | None) -> None:
        self.seen.append(("after", request.code, response.code if response else None))
        if self._failing == "after":
            raise RuntimeError("a hook's own mistake")


@pytest.mark.parametrize("failing", ["", "after"])
async def test_hooks_see_how_each_call_of_ours_ended_and_cannot_keep_it_from_ending(
    failing: str,
) -> None:
    recorder = Recorder(failing)
    connection, transport = open_client(endpoint_of(hooks=(recorder,)))
    answered = connection.start_call(new_request(ECHO), 30)
    expired = connection.start_call(new_request(ECHO), 0)
    cancelled = asyncio.create_task(connection.call(new_request(ECHO), 30))
    await loop_turns(2)
    cancelled.cancel()
    connection.data_received(encode_frame(answer(transport.commands[0], 5)))
    connection.send_oneway(new_request(WORK))
    assert (await answered).code == 5
    with pytest.raises(CallTimeout):
        await expired
    await asyncio.wait([cancelled])
    closed = connection.start_call(new_request(ECHO), 30)
    connection.abort()
    with pytest.raises(ConnectionClosed):
        await closed

    after = [seen for seen in recorder.seen if seen[0] == "after"]
    assert len(recorder.seen) == 2 * len(after) == 10
    assert after.count(("after", ECHO, 5)) == 1
    assert after.count(("after", ECHO, None)) == 3
    assert after.count(("after", WORK, None)) == 1


@pytest.mark.parametrize("failing", ["", "after"])
async def test_hooks_see_each_request_of_the_peer_and_its_answer(failing: str) -> None:
    recorder = Recorder(failing)
    connection, transport = open_connection(endpoint_of(hooks=(recorder,)))

    connection.data_received(request(1) + request(2, code=WORK))

    assert [command.code for command in transport.commands] == [0, 3]
    # An unknown code never reaches the hooks' before, but its answer is seen.
    assert recorder.seen == [("before", ECHO, None), ("after", ECHO, 0), ("after", WORK, 3)]


async def test_a_hook_may_refuse_a_request_of_the_peer() -> None:
    connection, transport = open_connection(endpoint_of(hooks=(Recorder("before"),)))

    connection.data_received(request(1))

    assert (transport.commands[0].code, transport.commands[0].remark) == (16, "not you")


async def test_a_hook_that_refuses_a_call_of_ours_keeps_it_from_being_sent() -> None:
    connection, transport = open_client(endpoint_of(hooks=(Recorder("before"),)))

    with pytest.raises(RequestRejected):
        connection.start_call(new_request(ECHO), 5)
    await loop_turns(2)

    assert transport.writes == []
    assert len(connection._pending) == 0


async def test_owners_are_told_of_opened_and_closed_connections_once() -> None:
    told: list[str] = []
    endpoint = endpoint_of(
        connections_max=1,
        on_open=lambda connection: told.append("open"),
        on_close=lambda connection: told.append("close"),
    )
    connection, _ = open_connection(endpoint)
    refused, refused_transport = open_connection(endpoint)
    await refused.closed
    assert refused_transport.is_aborted

    connection.close()
    connection.close()
    connection.abort()
    await connection.closed

    assert told == ["open", "close"]
    assert endpoint.connections == set()
