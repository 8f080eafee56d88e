"""Request and reply with a scripted broker, which does what no real one would."""

import asyncio

import pytest

from emberq.client.aio.client import Client
from emberq.client.aio.producer import Producer
from emberq.client.aio.push_consumer import PushConsumer
from emberq.client.aio.request_reply import replying
from emberq.client.core.received import ReceivedMessage
from emberq.errors import BrokerError, ConfigError, RequestReplyTimeout
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer
from emberq.record.decode import decode_record
from emberq.record.encode import encode_record
from emberq.record.properties import encode_properties, parse_properties
from emberq.remoting.connection import Connection
from tests.integration.client.scripted import (
    Handlers,
    Scripted,
    broker,
    client_and_broker,
    name_server,
    route_to,
    scripted_server,
)
from tests.unit.client.test_request_reply import reply_command

pytestmark = pytest.mark.integration

STORED = {"msgId": "0A" * 16, "queueId": "0", "queueOffset": "5"}


def properties_of(request: Command) -> dict[str, str]:
    return parse_properties((request.fields or {})["i"])


class ReplyingBroker:
    """Stores requests and pushes a reply to each over the connection that they came by."""

    def __init__(self, *, code: int = 0) -> None:
        self._code = code
        self._tasks: set[asyncio.Task[Command]] = set()

    def handlers(self) -> Handlers:
        return {**broker(), RequestCode.SEND_MESSAGE_V2: self._send}

    def _send(self, command: Command, connection: Connection) -> Command:
        if not self._code:
            pushed = reply_command(properties_of(command)["CORRELATION_ID"], b"re:" + command.body)
            task = asyncio.create_task(self._push(connection, pushed))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answer(command, self._code, "a reason", STORED)

    async def _push(self, connection: Connection, pushed: Command) -> Command:
        return await connection.call(pushed, 5.0)


async def test_a_request_returns_the_reply_that_is_pushed() -> None:
    async with (
        client_and_broker(ReplyingBroker().handlers()) as (client, master),
        Producer("askers", client=client, codec=str) as producer,
    ):
        one, two = await asyncio.gather(
            producer.request("orders", "one", tags="A", timeout=5.0),
            producer.request("orders", "two", timeout=5.0),
        )
        [sent, _] = master.of(RequestCode.SEND_MESSAGE_V2)

        assert (one.value, two.value) == ("re:one", "re:two")
        properties = properties_of(sent)
        assert (properties["REPLY_TO_CLIENT"], properties["TTL"]) == (client.client_id, "5000")
        assert len(client.server_requests.replies) == 0


async def test_the_broker_knows_the_requester_before_the_first_request() -> None:
    server = ReplyingBroker()
    async with (
        scripted_server(server.handlers()) as master,
        scripted_server(name_server({"orders": route_to(master.address)})) as names,
        Producer("askers", name_server=names.address) as producer,
    ):
        await producer.request("orders", b"x")
        await producer.request("orders", b"y")
        codes = [request.code for request in master.requests]

    before = codes[: codes.index(RequestCode.SEND_MESSAGE_V2)]
    assert RequestCode.HEART_BEAT in before
    assert codes.count(RequestCode.HEART_BEAT) == 1


async def test_without_a_reply_the_request_times_out() -> None:
    handlers = broker()
    handlers[RequestCode.SEND_MESSAGE_V2] = lambda command, _: answer(command, fields=STORED)
    async with (
        client_and_broker(handlers) as (client, _),
        Producer("askers", client=client) as producer,
    ):
        with pytest.raises(RequestReplyTimeout, match="nobody replied") as caught:
            await producer.request("orders", b"x", timeout=2.0)

        assert isinstance(caught.value, TimeoutError)
        assert len(client.server_requests.replies) == 0


async def test_a_request_that_is_refused_raises_what_the_broker_said() -> None:
    async with (
        client_and_broker(ReplyingBroker(code=13).handlers()) as (client, _),
        Producer("askers", client=client) as producer,
    ):
        with pytest.raises(BrokerError, match="a reason"):
            await producer.request("orders", b"x")


def request_from(broker_name: str) -> ReceivedMessage:
    properties: dict[str, str | None] = {
        "CLUSTER": "c",
        "CORRELATION_ID": "id-1",
        "REPLY_TO_CLIENT": "asker",
        "TTL": "3000",
    }
    record = decode_record(encode_record("orders", b"ping", encode_properties(properties)))
    return ReceivedMessage(record, MessageQueue(broker_name, 0, "orders"), "orders")


async def _replied(one: Scripted, other: Scripted) -> Command:
    routes = {"c_REPLY_TOPIC": route_to(one.address, other.address)}
    async with (
        scripted_server(name_server(routes)) as names,
        Client(names.address, namespace="ns") as client,
        Producer("repliers", client=client) as producer,
    ):
        for _ in range(3):
            await producer.reply_to(request_from("broker-1"), b"pong")
    assert not one.of(RequestCode.SEND_REPLY_MESSAGE_V2)
    return other.of(RequestCode.SEND_REPLY_MESSAGE_V2)[-1]


async def test_a_reply_goes_to_the_requests_broker_with_the_requesters_marks() -> None:
    handlers = broker()
    handlers[RequestCode.SEND_REPLY_MESSAGE_V2] = lambda command, _: answer(command, fields=STORED)
    async with scripted_server(handlers) as one, scripted_server(handlers) as other:
        sent = await _replied(one, other)

    properties = properties_of(sent)
    assert (sent.fields or {})["b"] == "c_REPLY_TOPIC"
    assert (properties["MSG_TYPE"], properties["CORRELATION_ID"]) == ("reply", "id-1")
    assert (properties["REPLY_TO_CLIENT"], properties["TTL"]) == ("asker", "3000")
    assert sent.body == b"pong"


async def test_what_a_handler_returns_is_the_reply_and_none_is_not() -> None:
    sent: list[object] = []

    async def reply_to(message: ReceivedMessage, value: object) -> None:
        sent.append(value)

    async def asynchronous(message: ReceivedMessage) -> str:
        return "a"

    def plain(message: ReceivedMessage) -> str:
        return "b"

    def silent(message: ReceivedMessage) -> None: ...

    loop = asyncio.get_running_loop()
    await replying(asynchronous, reply_to, lambda: loop)(request_from("broker-0"))
    for function in (plain, silent):
        handle = replying(function, reply_to, lambda: loop)
        await asyncio.to_thread(handle, request_from("broker-0"))
    no_request = ReceivedMessage(
        decode_record(encode_record("orders", b"x")), MessageQueue("b", 0, "orders"), "orders"
    )
    await replying(asynchronous, reply_to, lambda: loop)(no_request)

    assert sent == ["a", "b"]


async def test_functions_that_reply_are_added_before_the_start() -> None:
    async with client_and_broker(broker()) as (client, _):
        consumer = PushConsumer("readers", client=client)
        consumer.reply("orders")(lambda message: b"pong")
        async with consumer:
            with pytest.raises(ConfigError, match="before the start"):
                consumer.reply("others")
