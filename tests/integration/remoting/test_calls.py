"""Calls between two real endpoints: matched, timed, refused, in both directions."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from emberq.errors import CallTimeout, ConnectionClosed, TooManyPendingCalls
from emberq.protocol.command import Command, HeaderEncoding, answer, new_request
from emberq.remoting.connection import Connection
from emberq.remoting.registry import Answer
from tests.support.endpoints import ECHO, WORK, connected, endpoint_of, serving
from tests.support.raw_peer import raw_peer
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("encoding", HeaderEncoding)
async def test_a_call_comes_back_with_its_answer(encoding: HeaderEncoding) -> None:
    async with serving(endpoint_of()) as address, connected(address) as connection:
        request = new_request(ECHO, {"a": "é"}, b"body", encoding=encoding)
        response = await connection.call(request, 5)

    assert response.is_response
    assert response.encoding is encoding
    assert (response.fields, response.body) == ({"a": "é"}, b"body")


async def test_answers_find_their_calls_in_whatever_order_they_come() -> None:
    held: list[tuple[Command, Connection]] = []

    def hold(command: Command, connection: Connection) -> Answer:
        held.append((command, connection))
        return None

    async with serving(endpoint_of({WORK: hold})) as address, connected(address) as connection:
        calls = [
            connection.start_call(new_request(WORK, body=str(n).encode()), 10) for n in range(50)
        ]
        await until(lambda: len(held) == 50)
        for request, asker in sorted(held, key=lambda pair: hash(pair[0].body)):
            asker.send_answer(request, answer(request, body=request.body))
        bodies = [(await call).body for call in calls]

    assert bodies == [str(n).encode() for n in range(50)]


async def test_a_thousand_calls_at_once_are_all_answered() -> None:
    async with serving(endpoint_of()) as address, connected(address) as connection:
        answers = await asyncio.gather(
            *(connection.call(new_request(ECHO, body=str(n).encode()), 15) for n in range(1000))
        )

    assert [response.body for response in answers] == [str(n).encode() for n in range(1000)]


async def test_a_call_without_an_answer_ends_at_its_deadline_and_a_late_answer_is_dropped() -> None:
    held: list[tuple[Command, Connection]] = []

    def hold(command: Command, connection: Connection) -> Answer:
        held.append((command, connection))
        return None

    async with serving(endpoint_of({WORK: hold})) as address, connected(address) as connection:
        with pytest.raises(CallTimeout, match="request 11 in time"):
            await connection.call(new_request(WORK), 0.05)
        await until(lambda: held)

        request, asker = held[0]
        asker.send_answer(request, answer(request, remark="too late"))
        response = await connection.call(new_request(ECHO, body=b"on time"), 5)

        assert response.body == b"on time"
        assert not connection.is_closed


async def test_calls_above_the_limit_are_refused_and_the_others_go_on() -> None:
    release = asyncio.Event()

    async def wait(command: Command, connection: Connection) -> Answer:
        await release.wait()
        return answer(command)

    async with (
        serving(endpoint_of({WORK: wait})) as address,
        connected(address, endpoint_of(pending_calls_max=3)) as connection,
    ):
        calls = [connection.start_call(new_request(WORK), 10) for _ in range(3)]
        with pytest.raises(TooManyPendingCalls):
            await connection.call(new_request(ECHO), 10)
        release.set()
        assert [(await call).code for call in calls] == [0, 0, 0]
        assert (await connection.call(new_request(ECHO), 10)).code == 0


async def test_a_oneway_request_arrives_and_is_not_answered() -> None:
    arrived: list[Command] = []

    def note(command: Command, connection: Connection) -> Answer:
        arrived.append(command)
        return answer(command)

    async with serving(endpoint_of({WORK: note})) as address, raw_peer(address) as peer:
        async with connected(address) as connection:
            connection.send_oneway(new_request(WORK, {"from": "client"}))
            await until(lambda: arrived)
        await peer.send(Command(code=WORK, flag=2, opaque=1))
        response = await peer.ask(Command(code=ECHO, opaque=2))

    assert arrived[0].is_oneway
    assert response.opaque == 2


async def test_a_server_calls_its_client_over_the_clients_connection() -> None:
    """While it serves a call of that client: neither waits for the other's turn."""

    async def ask_back(command: Command, connection: Connection) -> Answer:
        back = await connection.call(new_request(ECHO, body=b"who are you?"), 10)
        return answer(command, body=back.body)

    def introduce(command: Command, connection: Connection) -> Answer:
        return answer(command, body=b"the client")

    async with (
        serving(endpoint_of({WORK: ask_back})) as address,
        connected(address, endpoint_of({ECHO: introduce})) as connection,
    ):
        response = await connection.call(new_request(WORK), 10)

    assert response.body == b"the client"


async def test_equal_opaques_of_both_directions_do_not_mix() -> None:
    accepted: list[Connection] = []
    async with serving(endpoint_of(on_open=accepted.append)) as address, raw_peer(address) as peer:
        await peer.ask(Command(code=ECHO))
        call = accepted[0].start_call(new_request(WORK), 10)
        asked = await peer.receive()
        assert not asked.is_response

        # The peer's own request has the same number as the call it has not answered yet.
        echoed = await peer.ask(Command(code=ECHO, opaque=asked.opaque, body=b"mine"))
        assert (echoed.is_response, echoed.body) == (True, b"mine")
        assert not call.done()

        await peer.send(answer(asked, body=b"yours"))
        assert (await call).body == b"yours"


async def test_the_end_of_the_server_ends_the_calls_that_wait_for_it() -> None:
    def hold(command: Command, connection: Connection) -> Answer:
        return None

    async with AsyncExitStack() as client_side:
        async with serving(endpoint_of({WORK: hold})) as address:
            connection = await client_side.enter_async_context(connected(address))
            call = connection.start_call(new_request(WORK), 10)

        with pytest.raises(ConnectionClosed):
            await call


@pytest.mark.parametrize(("count", "body_size_bytes"), [(200, 200_000), (5_000, 20)])
async def test_two_sides_that_flood_each_other_do_not_wait_for_each_other(
    count: int, body_size_bytes: int
) -> None:
    """More is under way in both directions than all buffers together hold."""
    body = bytes(body_size_bytes)
    server, client = (
        endpoint_of(write_buffer_high_bytes=64 * 1024, write_buffer_low_bytes=16 * 1024)
        for _ in range(2)
    )
    async with serving(server) as address, connected(address, client) as connection:
        calls = [connection.start_call(new_request(ECHO, body=body), 30) for _ in range(count)]
        for call in calls:
            assert len((await call).body) == body_size_bytes


async def test_a_binary_peer_and_a_json_peer_share_a_connection() -> None:
    async with serving(endpoint_of()) as address, raw_peer(address) as peer:
        for opaque, encoding in enumerate([*HeaderEncoding, *HeaderEncoding]):
            response = await peer.ask(Command(code=ECHO, opaque=opaque, encoding=encoding))
            assert (response.opaque, response.encoding) == (opaque, encoding)
