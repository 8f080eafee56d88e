"""The producer against EmberQ's broker, and against brokers that fail on purpose."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emberq.client.aio.client import Client
from emberq.client.aio.producer import Producer
from emberq.client.core.message import Message, SendStatus
from emberq.client.core.outgoing import Compression
from emberq.errors import (
    BrokerError,
    ClientClosed,
    MessageIllegal,
    MessageRefused,
    SendFailed,
    TopicNotFound,
)
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.record.decode import decode_record
from emberq.record.properties import decode_properties
from emberq.record.record import Record
from emberq.remoting.connection import Connection
from emberq.store.reader import ReadLimits
from emberq.testing.embedded import EmbeddedCluster as Cluster
from emberq.testing.embedded import cluster_on_this_loop as cluster
from tests.integration.client.scripted import (
    Handlers,
    broker,
    client_and_broker,
    name_server,
    route_to,
    scripted_server,
)
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as started:
        yield started


def stored(running: Cluster, topic: str) -> list[Record]:
    """All messages of a topic, by queue and offset."""
    store = running.broker.store
    records: list[Record] = []
    for queue_id in range(8):
        offset = 0
        while True:
            found = store.read(topic, queue_id, offset, ReadLimits())
            if found is None or not found.parts:
                break
            content = b"".join(found.parts)
            while content:
                size = int.from_bytes(content[:4], "big")
                records.append(decode_record(content[:size]))
                content = content[size:]
            offset = found.next_offset
    return records


async def test_a_message_is_stored_with_its_properties(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server) as producer:
        result = await producer.send(
            "orders", b"hello", tags="A", keys=["k1", "k2"], properties={"color": "red"}
        )

    [record] = stored(running, "orders")
    properties = decode_properties(record.properties)
    assert result.status is SendStatus.SEND_OK
    assert (record.body, properties["TAGS"], properties["KEYS"]) == (b"hello", "A", "k1 k2")
    assert (properties["color"], properties["UNIQ_KEY"]) == ("red", result.message_id)
    assert (result.queue.topic, result.queue.broker_name) == ("orders", "broker-a")
    assert (result.queue.queue_id, result.queue_offset) == (record.queue_id, record.queue_offset)


async def test_messages_of_one_key_keep_their_order_in_one_queue(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server) as producer:
        results = [
            await producer.send("orders", b"%d" % number, ordering_key="customer-7")
            for number in range(10)
        ]

    assert len({result.queue for result in results}) == 1
    assert [record.body for record in stored(running, "orders")] == [b"%d" % n for n in range(10)]


async def test_many_sends_at_once_all_arrive(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server, in_flight_max=8) as producer:
        await asyncio.gather(*(producer.send("orders", b"%d" % number) for number in range(100)))

    bodies = {record.body for record in stored(running, "orders")}
    assert bodies == {b"%d" % number for number in range(100)}


async def test_a_batch_is_split_by_size_and_arrives_whole(running: Cluster) -> None:
    messages = [Message("orders", bytes([65 + number]) * 300) for number in range(10)]
    async with Producer(
        "writers", name_server=running.name_server, message_size_max=1500
    ) as producer:
        results = await producer.send_batch(messages)

    assert len(results) == 3
    assert sum(len(result.message_id.split(",")) for result in results) == 10
    assert sorted(bytes(record.body[:1]) for record in stored(running, "orders")) == [
        bytes([65 + number]) for number in range(10)
    ]


async def test_large_bodies_travel_compressed(running: Cluster) -> None:
    async with Producer(
        "writers", name_server=running.name_server, compression=Compression(above_bytes=100)
    ) as producer:
        await producer.send("orders", b"x" * 1000)

    [record] = stored(running, "orders")
    assert record.system_flag & 1
    assert len(record.body) < 100


async def test_values_are_sent_through_a_codec(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server, codec=dict) as producer:
        await producer.send("orders", {"a": 1})

    [record] = stored(running, "orders")
    assert record.body == b'{"a":1}'


async def test_queue_and_selector_decide_where_a_message_goes(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server) as producer:
        queues = await producer.queues("orders")
        chosen = await producer.send("orders", b"x", queue=queues[2])
        selected = await producer.send("orders", b"x", selector=lambda all_, _: all_[3])
        with pytest.raises(MessageRefused, match="no queue of orders"):
            await producer.send("orders", b"x", queue=MessageQueue("broker-a", 0, "other"))

    assert (chosen.queue, selected.queue) == (queues[2], queues[3])


async def test_oneway_messages_arrive_too(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server) as producer:
        await producer.send_oneway("orders", b"x", tags="A")
        await producer.send("orders", b"y")
        await until(lambda: len(stored(running, "orders")) == 2)


async def test_namespaces_are_seen_by_the_broker_only(running: Cluster) -> None:
    async with (
        Client(running.name_server, namespace="ns") as client,
        Producer("writers", client=client) as producer,
    ):
        result = await producer.send("orders", b"x")

    [record] = stored(running, "ns%orders")
    assert result.queue.topic == "orders"
    assert decode_properties(record.properties)["INSTANCE_ID"] == "ns"


async def test_what_the_broker_refuses_is_raised_at_once(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path, maxMessageSize="1000") as running,
        Producer(
            "writers", name_server=running.name_server, compression=Compression(above_bytes=None)
        ) as producer,
    ):
        with pytest.raises(MessageIllegal) as caught:
            await producer.send("orders", bytes(2000))

    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL


async def test_without_auto_creation_the_topic_must_exist(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path, autoCreateTopicEnable="false") as running,
        Producer("writers", name_server=running.name_server) as producer,
    ):
        with pytest.raises(TopicNotFound, match="Create it"):
            await producer.send("orders", b"x")


async def test_a_producer_is_used_between_start_and_close(running: Cluster) -> None:
    producer = Producer("writers", name_server=running.name_server)
    with pytest.raises(ClientClosed):
        await producer.send("orders", b"x")
    async with producer:
        await producer.send("orders", b"x")
    with pytest.raises(ClientClosed):
        await producer.send("orders", b"x")


async def test_closing_waits_for_what_is_on_its_way() -> None:
    held: list[tuple[Command, Connection]] = []
    handlers = broker()

    def hold(command: Command, connection: Connection) -> None:
        held.append((command, connection))

    handlers[RequestCode.SEND_MESSAGE_V2] = hold
    async with client_and_broker(handlers) as (client, _):
        producer = Producer("writers", client=client)
        await producer.start()
        sending = asyncio.create_task(producer.send("orders", b"x"))
        await until(lambda: held)
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        assert not closing.done()
        command, connection = held[0]
        connection.send_answer(command, answer(command, fields=_stored_fields()))
        await closing

        assert (await sending).queue_offset == 5


def _stored_fields() -> dict[str, str]:
    return {"msgId": "0A" * 16, "queueId": "0", "queueOffset": "5"}


def _send_answers(codes: list[int], seen: list[str]) -> Handlers:
    def serve(command: Command, connection: Connection) -> Command:
        seen.append((command.fields or {})["n"])
        code = codes.pop(0) if codes else 0
        return answer(command, code, "a reason", _stored_fields())

    return {**broker(), RequestCode.SEND_MESSAGE_V2: serve}


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
    ],
)
async def test_a_broker_in_trouble_is_left_for_another(code: ResponseCode) -> None:
    seen: list[str] = []
    codes = [int(code)]
    async with (
        scripted_server(_send_answers(codes, seen)) as one,
        scripted_server(_send_answers(codes, seen)) as other,
        scripted_server(name_server({"orders": route_to(one.address, other.address)})) as server,
        Producer("writers", name_server=server.address) as producer,
    ):
        await producer.send("orders", b"x")

    assert sorted(seen) == ["broker-0", "broker-1"]


async def test_a_message_that_is_illegal_is_not_tried_again() -> None:
    seen: list[str] = []
    async with (
        client_and_broker(_send_answers([13, 13, 13], seen)) as (client, _),
        Producer("writers", client=client) as producer,
    ):
        with pytest.raises(MessageIllegal):
            await producer.send("orders", b"x")

    assert len(seen) == 1


async def test_an_ordered_message_is_not_sent_elsewhere() -> None:
    seen: list[str] = []
    async with (
        client_and_broker(_send_answers([1, 1, 1], seen)) as (client, _),
        Producer("writers", client=client) as producer,
    ):
        with pytest.raises(BrokerError):
            await producer.send("orders", b"x", ordering_key="k")

    assert len(seen) == 1


async def test_when_all_attempts_fail_the_error_names_each() -> None:
    seen: list[str] = []
    async with (
        client_and_broker(_send_answers([1, 2, 14], seen)) as (client, _),
        Producer("writers", client=client) as producer,
    ):
        with pytest.raises(SendFailed, match="tried 3 times") as caught:
            await producer.send("orders", b"x")

    codes = [getattr(attempt, "code", None) for attempt in caught.value.attempts]
    assert codes == [1, 2, 14]


async def test_the_id_of_a_message_is_the_same_on_every_attempt() -> None:
    ids: list[str] = []

    def serve(command: Command, connection: Connection) -> Command:
        ids.append((command.fields or {})["i"].partition("UNIQ_KEY\x01")[2][:32])
        return answer(command, 2 if len(ids) < 3 else 0, None, _stored_fields())

    async with (
        client_and_broker({**broker(), RequestCode.SEND_MESSAGE_V2: serve}) as (client, _),
        Producer("writers", client=client) as producer,
    ):
        result = await producer.send("orders", b"x")

    assert ids == [result.message_id] * 3


@pytest.mark.parametrize(
    ("code", "status"), [(10, "FLUSH_DISK_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE")]
)
async def test_weaker_storage_is_a_result_or_tried_again(code: int, status: str) -> None:
    seen: list[str] = []
    async with client_and_broker(_send_answers([code, code], seen)) as (client, _):
        async with Producer("one", client=client) as producer:
            weak = await producer.send("orders", b"x")
        async with Producer("two", client=client, is_weak_storage_retried=True) as strict:
            strong = await strict.send("orders", b"x")

    assert (weak.status, strong.status) == (status, "SEND_OK")
    assert len(seen) == 3


async def test_a_broker_that_does_not_answer_costs_no_more_than_the_timeout() -> None:
    handlers: Handlers = {**broker(), RequestCode.SEND_MESSAGE_V2: lambda command, _: None}
    async with (
        client_and_broker(handlers) as (client, _),
        Producer("writers", client=client, attempt_timeout=0.05) as producer,
    ):
        with pytest.raises(SendFailed, match="may be stored all the same"):
            await producer.send("orders", b"x", timeout=0.2)


async def test_a_namespace_of_the_second_kind_travels_with_every_request() -> None:
    handlers = broker()
    stored_fields = {"msgId": "0" * 32, "queueId": "0", "queueOffset": "0"}
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
        handlers[code] = lambda command, _: answer(command, fields=stored_fields)
    async with (
        scripted_server(handlers) as master,
        scripted_server(name_server({"orders": route_to(master.address)})) as names,
        Client(names.address, namespace_v2="tenant") as client,
        Producer("writers", client=client) as producer,
    ):
        await producer.send("orders", b"plain")
        await producer.send("orders", b"tagged", tags="T")
        await producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])
        await producer.send_oneway("orders", b"unanswered")
        await client.heartbeats.beat()
        await until(lambda: len(master.of(RequestCode.SEND_MESSAGE_V2)) == 3)

    requests = [*names.requests, *master.requests]
    assert {request.code for request in requests} >= {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.HEART_BEAT,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.UNREGISTER_CLIENT,
    }
    for request in requests:
        fields = request.fields or {}
        assert (fields["nsd"], fields["ns"]) == ("true", "tenant")
    assert all(
        (each.fields or {})["b"] == "orders" for each in master.of(RequestCode.SEND_MESSAGE_V2)
    )


async def test_a_send_without_time_does_not_leave() -> None:
    handlers = broker()
    handlers[RequestCode.SEND_MESSAGE_V2] = lambda command, _: answer(command, fields={})
    async with (
        client_and_broker(handlers) as (client, master),
        Producer("writers", client=client) as producer,
    ):
        with pytest.raises(SendFailed, match="no time was left"):
            await producer.send("orders", b"x", timeout=0)

    assert master.of(RequestCode.SEND_MESSAGE_V2) == []
