"""Single sends that leave together, against EmberQ's broker and against scripted ones."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emberq.client.aio.client import Client
from emberq.client.aio.producer import Producer
from emberq.client.core.message import Message, SendResult
from emberq.client.core.outgoing import Compression
from emberq.errors import ClientClosed, ConfigError, MessageIllegal, SendFailed
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.record.batch import iter_batch
from emberq.record.properties import decode_properties
from emberq.remoting.connection import Connection
from emberq.testing.embedded import EmbeddedCluster as Cluster
from emberq.testing.embedded import cluster_on_this_loop as cluster
from tests.integration.client.scripted import Handlers, broker, client_and_broker
from tests.integration.client.test_producer import stored
from tests.support.waiting import until

pytestmark = pytest.mark.integration

# Sends of one turn of the loop share a batch however busy the machine is; no test waits this long.
LONG_S = 30.0
SHORT_S = 0.001


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as started:
        yield started


class Broker:
    """Answers sends, and keeps the bodies of every request."""

    def __init__(self, *codes: int) -> None:
        self.requests: list[list[bytes]] = []
        self._codes = list(codes)

    def handlers(self) -> Handlers:
        return {
            **broker(),
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
        }

    def _send(self, command: Command, connection: Connection) -> Command:
        is_batch = command.code == RequestCode.SEND_BATCH_MESSAGE
        content = bytes(command.body)
        bodies = [bytes(each.body) for each in iter_batch(content)] if is_batch else [content]
        self.requests.append(bodies)
        code = self._codes.pop(0) if self._codes else 0
        ids = ",".join(f"{number:032X}" for number in range(len(bodies)))
        return answer(command, code, "a reason", {"msgId": ids, "queueId": "0", "queueOffset": "5"})


async def test_sends_at_once_share_a_batch_and_each_has_its_own_result(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server, linger=0.05) as producer:
        results = await asyncio.gather(
            *(producer.send("orders", b"%d" % n, tags=f"T{n}", keys=f"k{n}") for n in range(20))
        )

    records = {record.queue_offset: record for record in stored(running, "orders")}
    assert len({result.queue for result in results}) == 1
    assert [result.queue_offset for result in results] == list(range(20))
    for number, result in enumerate(results):
        record = records[number]
        properties = decode_properties(record.properties)
        assert bytes(record.body) == b"%d" % number
        assert (properties["TAGS"], properties["KEYS"]) == (f"T{number}", f"k{number}")
        assert properties["UNIQ_KEY"] == result.message_id
        assert int(result.offset_message_id[-16:], 16) == record.log_offset


async def test_plain_messages_share_a_batch_with_all_others(running: Cluster) -> None:
    tags = ["A", None, "B", None, None]
    async with Producer("writers", name_server=running.name_server, linger=0.05) as producer:
        results = await asyncio.gather(
            *(producer.send("orders", b"%d" % n, tags=tag) for n, tag in enumerate(tags))
        )

    records = sorted(stored(running, "orders"), key=lambda record: record.queue_offset)
    found = [decode_properties(record.properties) for record in records]
    assert [each.get("TAGS") for each in found] == tags
    assert [each["UNIQ_KEY"] for each in found] == [result.message_id for result in results]
    assert [bytes(record.body) for record in records] == [b"%d" % n for n in range(len(tags))]
    assert {each["WAIT"] for each in found} == {"true"}


async def test_a_batch_that_is_full_leaves_at_once() -> None:
    server = Broker()
    async with (
        client_and_broker(server.handlers()) as (client, _),
        Producer("writers", client=client, linger=LONG_S, batch_bytes=1000) as producer,
    ):
        sending = [asyncio.create_task(producer.send("orders", b"x" * 300)) for _ in range(5)]
        await until(lambda: len(server.requests) == 2)
        assert [len(bodies) for bodies in server.requests] == [2, 2]
        await producer.close()
        assert [len(bodies) for bodies in server.requests] == [2, 2, 1]
        assert all(task.done() for task in sending)
        await asyncio.gather(*sending)


async def test_what_cannot_share_a_request_leaves_alone_and_in_turn() -> None:
    server = Broker()
    async with (
        client_and_broker(server.handlers()) as (client, _),
        Producer(
            "writers",
            client=client,
            linger=SHORT_S,
            batch_bytes=2000,
            compression=Compression(above_bytes=100),
        ) as producer,
    ):
        [queue, *_] = await producer.queues("orders")
        bodies = [b"1", b"2", b"x" * 150, b"3", b"4"]
        await asyncio.gather(*(producer.send("orders", body, queue=queue) for body in bodies))

    assert [len(request) for request in server.requests] == [2, 1, 2]
    assert (server.requests[0], server.requests[2]) == ([b"1", b"2"], [b"3", b"4"])


async def test_ordering_keys_keep_their_queues_and_their_order(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server, linger=0.01) as producer:
        await producer.send("orders", b"first")
        results = await asyncio.gather(
            *(
                producer.send("orders", b"%d" % n, ordering_key=f"customer-{n % 5}")
                for n in range(50)
            )
        )
        plain = Producer("plain", client=producer.client)
        async with plain:
            for key in range(5):
                sent = await plain.send("orders", b"x", ordering_key=f"customer-{key}")
                assert {result.queue for result in results[key::5]} == {sent.queue}

    for key in range(5):
        offsets = [result.queue_offset for result in results[key::5]]
        assert offsets == sorted(offsets)


async def test_delays_and_other_promises_do_not_share_a_batch() -> None:
    server = Broker()
    async with (
        client_and_broker(server.handlers()) as (client, _),
        Producer("writers", client=client, linger=SHORT_S) as producer,
    ):
        await asyncio.gather(
            producer.send("orders", b"later", delay=1),
            producer.send("orders", b"1"),
            producer.send("orders", b"2"),
            producer.send(Message("orders", b"loose", is_store_awaited=False)),
        )

    assert sorted(server.requests) == [[b"1", b"2"], [b"later"], [b"loose"]]


async def test_a_batch_is_tried_again_as_a_whole() -> None:
    server = Broker(ResponseCode.SYSTEM_BUSY)
    async with (
        client_and_broker(server.handlers()) as (client, _),
        Producer("writers", client=client, linger=SHORT_S) as producer,
    ):
        results = await asyncio.gather(*(producer.send("orders", b"%d" % n) for n in range(3)))

    assert server.requests == [[b"0", b"1", b"2"]] * 2
    assert [result.queue_offset for result in results] == [5, 6, 7]


async def test_a_batch_that_fails_fails_for_each() -> None:
    server = Broker(*[ResponseCode.SYSTEM_BUSY] * 3)
    async with (
        client_and_broker(server.handlers()) as (client, _),
        Producer("writers", client=client, linger=SHORT_S) as producer,
    ):
        failures = await asyncio.gather(
            *(producer.send("orders", b"x") for _ in range(3)), return_exceptions=True
        )

    assert all(isinstance(failure, SendFailed) for failure in failures)
    assert len({id(failure) for failure in failures}) == 3
    assert isinstance(failures[0], SendFailed)
    assert len(failures[0].attempts) == 3


async def test_an_illegal_message_does_not_take_the_others_with_it() -> None:
    illegal = ResponseCode.MESSAGE_ILLEGAL
    server = Broker(illegal, 0, illegal, 0)
    async with (
        client_and_broker(server.handlers()) as (client, _),
        Producer("writers", client=client, linger=SHORT_S) as producer,
    ):
        outcomes = await asyncio.gather(
            *(producer.send("orders", b"%d" % n) for n in range(3)), return_exceptions=True
        )

    assert server.requests == [[b"0", b"1", b"2"], [b"0"], [b"1"], [b"2"]]
    assert [type(outcome) for outcome in outcomes] == [SendResult, MessageIllegal, SendResult]


async def test_who_gives_up_before_the_batch_leaves_is_not_sent() -> None:
    server = Broker()
    async with (
        client_and_broker(server.handlers()) as (client, _),
        Producer("writers", client=client, linger=LONG_S) as producer,
    ):
        sending = [asyncio.create_task(producer.send("orders", b"%d" % n)) for n in range(3)]
        await asyncio.sleep(0)
        sending[1].cancel()
        await asyncio.wait([sending[1]])
        await producer.close()
        await asyncio.gather(sending[0], sending[2])

    assert server.requests == [[b"0", b"2"]]


async def test_closing_the_client_first_leaves_nobody_waiting() -> None:
    handlers = broker()
    held: list[Command] = []

    def hold(command: Command, connection: Connection) -> None:
        held.append(command)

    handlers[RequestCode.SEND_BATCH_MESSAGE] = hold
    async with client_and_broker(handlers) as (client, _):
        producer = Producer("writers", client=client, linger=SHORT_S)
        await producer.start()
        sending = [asyncio.create_task(producer.send("orders", b"x")) for _ in range(2)]
        await until(lambda: held)
        await client.close()
        outcomes = await asyncio.gather(*sending, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] in ([ClientClosed] * 2, [SendFailed] * 2)


async def test_namespaces_travel_inside_the_batch(running: Cluster) -> None:
    async with (
        Client(running.name_server, namespace="ns") as client,
        Producer("writers", client=client, linger=0.01) as producer,
    ):
        results = await asyncio.gather(
            *(producer.send("orders", b"x", ordering_key="k") for _ in range(2))
        )

    records = stored(running, "ns%orders")
    assert {result.queue.topic for result in results} == {"orders"}
    assert [decode_properties(each.properties)["INSTANCE_ID"] for each in records] == ["ns"] * 2


@pytest.mark.parametrize(("linger", "batch_bytes"), [(-1.0, 100), (61.0, 100), (0.1, 0)])
def test_limits_that_make_no_sense_are_refused(linger: float, batch_bytes: int) -> None:
    with pytest.raises(ConfigError, match="expected"):
        Producer("writers", name_server="localhost:1", linger=linger, batch_bytes=batch_bytes)
