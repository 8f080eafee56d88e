"""Pulls over real connections: waiting, closing, stopping, TLS, and what a restart keeps."""

import asyncio
import ssl
from pathlib import Path

import pytest

from emberq.broker.parts import BrokerParts
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, HeaderEncoding, new_request
from emberq.record.decode import iter_records
from emberq.record.host import pack_host
from emberq.testing.local_nameserver import connected
from tests.integration.broker.running import RawClient, broker, clients
from tests.support.waiting import DEADLINE_S, until

pytestmark = pytest.mark.integration

HOST = pack_host("10.1.2.3", 4711)
PULL = RequestCode.PULL_MESSAGE
WAITING = "6"  # may be held, and brings its subscription


def fields(offset: int = 0, **changes: str) -> dict[str, str]:
    return {
        "consumerGroup": "G",
        "topic": "T",
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subVersion": "0",
        "subscription": "*",
        **changes,
    }


def put(running: BrokerParts, *bodies: bytes) -> None:
    running.topics.create_if_absent("T", 4)
    for body in bodies:
        running.store.put("T", 0, body, born_host=HOST)
    running.store.dispatch_now()


def bodies_of(response: Command) -> list[bytes]:
    return [bytes(record.body) for record in iter_records(response.body)]


async def start(client: RawClient, *requests: Command) -> None:
    """Send without waiting; opaques are those of the caller."""
    await client.peer.send(*requests)


async def test_both_header_encodings_get_the_same_messages(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "a") as (a,):
        put(running, b"1", b"2" * 5000)

        plain = await a.ask(PULL, fields())
        request = new_request(PULL, fields(), encoding=HeaderEncoding.BINARY)
        await a.peer.send(request)
        binary = await a.peer.receive()

    assert binary.encoding is HeaderEncoding.BINARY
    assert binary.fields == plain.fields
    assert bodies_of(binary) == bodies_of(plain) == [b"1", b"2" * 5000]


async def test_a_pull_that_waits_is_answered_when_a_message_arrives(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "a", "b") as (a, b):
        put(running, b"old")
        waiting = asyncio.create_task(a.ask(PULL, fields(1, sysFlag=WAITING)))
        asked = await b.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
        assert asked.fields == {"offset": "1"}
        assert not waiting.done()

        put(running, b"new")
        response = await asyncio.wait_for(waiting, DEADLINE_S)

    assert bodies_of(response) == [b"new"]


async def test_a_reset_moves_a_consumer_that_waits_at_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "a", "tool") as (a, tool):
        put(running, b"1", b"2")
        waiting = asyncio.create_task(a.ask(PULL, fields(2, sysFlag=WAITING)))
        await until(lambda: len(running.held_pulls) == 1)

        asked = {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true"}
        reset = await tool.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)
        response = await asyncio.wait_for(waiting, DEADLINE_S)

    assert reset.code == 0
    assert (response.code, response.remark) == (21, "OFFSET_RESET")
    assert (response.fields or {})["nextBeginOffset"] == "0"


async def test_an_old_pull_is_answered_behind_later_requests(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "a") as (a,):
        put(running)
        held = new_request(PULL, fields(sysFlag=WAITING, suspendTimeoutMillis="200"))
        held.opaque = 1
        other = new_request(PULL, fields())
        other.opaque = 2
        await start(a, held, other)

        first, second = await a.peer.receive(), await a.peer.receive()

    assert [(first.opaque, first.code), (second.opaque, second.code)] == [(2, 19), (1, 19)]


async def test_pulls_go_with_their_connection(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "a", "b") as (a, b):
        put(running)
        await start(a, new_request(PULL, fields(sysFlag=WAITING)))
        assert (await b.ask(PULL, fields())).code == 19
        await until(lambda: len(running.held_pulls) == 1)

        a.peer.reset()

        await until(lambda: len(running.held_pulls) == 0)
        put(running, b"nobody waits")
        assert (await b.ask(PULL, fields())).code == 0


async def test_a_stop_answers_pulls_that_wait(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "a") as (a,):
        put(running)
        waiting = asyncio.create_task(a.ask(PULL, fields(sysFlag=WAITING)))
        await until(lambda: len(running.held_pulls) == 1)
        running.stopping[-1]()

        response = await asyncio.wait_for(waiting, DEADLINE_S)

    assert (response.code, response.remark) == (19, "NO_MESSAGE_IN_QUEUE")


async def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    asked = {"consumerGroup": "G", "topic": "T", "queueId": "0"}
    async with broker(tmp_path) as running, clients(running, "a") as (a,):
        put(running, b"1", b"2", b"3")
        await a.ask(PULL, fields(sysFlag="5", commitOffset="1"))
        commit = {**asked, "commitOffset": "2"}
        assert (await a.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0

    async with broker(tmp_path) as running, clients(running, "a") as (a,):
        found = await a.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)

    assert found.fields == {"offset": "2"}


async def test_messages_from_the_log_pass_tls(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    bodies = [bytes([number]) * 7_000 for number in range(32)]
    async with broker(tmp_path) as running:
        put(running, *bodies)
        port = running.addresses.port
        async with connected("127.0.0.1", port, tls=context) as client:
            response = await client.call(PULL, fields())

    assert bodies_of(response) == bodies


async def test_many_waiting_pulls_cost_the_loop_little(tmp_path: Path) -> None:
    """10,000 pulls are held; a message for one of them is answered at once."""
    count = 10_000
    async with broker(tmp_path) as running, clients(running, "a", "b") as (a, b):
        running.topics.create_if_absent("T", count)
        requests = []
        for number in range(count):
            request = new_request(PULL, fields(sysFlag=WAITING, queueId=str(number)))
            request.opaque = number
            requests.append(request)
        await start(a, *requests)
        await until(lambda: len(running.held_pulls) == count)

        put(running, b"for queue 0")
        response = await asyncio.wait_for(a.peer.receive(), DEADLINE_S)

        assert (response.opaque, response.code) == (0, 0)
        assert len(running.held_pulls) == count - 1
        assert (await b.ask(PULL, fields(queueId="1"))).code == 19
