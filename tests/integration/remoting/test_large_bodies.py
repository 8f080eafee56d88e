"""Answers that are received where they stay: whole, in turn with others, and cut short."""

import asyncio

import pytest

from emberq.errors import CallTimeout, ConnectionClosed
from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.frame import encode_frame
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer
from tests.support.endpoints import ECHO, WORK, connected, endpoint_of, serving
from tests.support.waiting import DEADLINE_S, until

pytestmark = pytest.mark.integration

KIB = 1024
SIZES = [0, 100, 200 * KIB, 256 * KIB, 257 * KIB, 1, 600 * KIB, 3_000_001, 8_000_000, 5]


def body_of(size: int) -> bytes:
    """No two parts of it are equal, nor those of other sizes."""
    return b"".join(b"%d/%d;" % (size, number) for number in range(size // 8 + 1))[:size]


def sized(command: Command, _connection: Connection) -> Answer:
    return answer(command, body=body_of(int(command.body)))


async def test_large_and_small_answers_are_whole_in_any_order() -> None:
    async with serving(endpoint_of({WORK: sized})) as address, connected(address) as connection:
        calls = [
            connection.start_call(new_request(WORK, body=str(size).encode()), DEADLINE_S)
            for size in (*SIZES, *reversed(SIZES), *SIZES)
        ]
        bodies = [(await call).body for call in calls]

    assert bodies == [body_of(size) for size in (*SIZES, *reversed(SIZES), *SIZES)]
    assert {type(body) for body in bodies} == {bytes}


async def test_requests_leave_while_a_large_answer_arrives() -> None:
    held: list[tuple[Command, Connection]] = []

    def hold(command: Command, connection: Connection) -> Answer:
        held.append((command, connection))
        return None

    async with serving(endpoint_of({WORK: hold})) as address, connected(address) as connection:
        large = connection.start_call(new_request(WORK), DEADLINE_S)
        await until(lambda: bool(held))
        request, asker = held[0]
        frame = encode_frame(answer(request, body=body_of(2_000_000)))
        assert asker._transport is not None
        asker._transport.write(frame[:1_000_000])
        await until(lambda: connection._partial_bytes > 900_000)
        small = connection.start_call(new_request(WORK), DEADLINE_S)
        await until(lambda: len(held) == 2)
        asker._transport.write(frame[1_000_000:])
        asker.send_answer(held[1][0], answer(held[1][0], body=b"meanwhile"))

        assert (await large).body == body_of(2_000_000)
        assert (await small).body == b"meanwhile"
        assert connection._partial_bytes == 0


@pytest.mark.parametrize("sent", [1_000, 300_000, 1_999_000])
async def test_a_connection_that_ends_within_an_answer_fails_its_call(sent: int) -> None:
    def torn(command: Command, connection: Connection) -> Answer:
        assert connection._transport is not None
        connection._transport.write(encode_frame(answer(command, body=bytes(2_000_000)))[:sent])
        connection.close()
        return None

    endpoint = endpoint_of()
    async with (
        serving(endpoint_of({WORK: torn})) as address,
        connected(address, endpoint) as connection,
    ):
        with pytest.raises(ConnectionClosed):
            await connection.call(new_request(WORK), DEADLINE_S)
        await asyncio.wait_for(asyncio.shield(connection.closed), DEADLINE_S)

    assert endpoint.partial_frames_bytes == 0


async def test_an_answer_that_comes_too_late_is_dropped_and_the_next_one_is_not() -> None:
    rests: list[bytes] = []
    senders: list[asyncio.Transport] = []

    def begin(command: Command, connection: Connection) -> Answer:
        frame = encode_frame(answer(command, body=bytes(2_000_000)))
        assert connection._transport is not None
        connection._transport.write(frame[:1_000_000])
        rests.append(frame[1_000_000:])
        senders.append(connection._transport)
        return None

    async with serving(endpoint_of({WORK: begin})) as address, connected(address) as connection:
        with pytest.raises(CallTimeout):
            await connection.call(new_request(WORK), 0.3)
        await until(lambda: connection._partial_bytes > 900_000)
        senders[0].write(rests[0])
        await until(lambda: connection._partial_bytes == 0)
        echoed = await connection.call(new_request(ECHO, body=b"on"), DEADLINE_S)

    assert echoed.body == b"on"
