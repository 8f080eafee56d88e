"""Requests with replies, and transactions."""

import asyncio

import pytest

from emberq.aio import Producer, ReceivedMessage
from emberq.errors import RequestReplyTimeout
from tests.client_behaviour.scenario import behaviour
from tests.client_behaviour.server import Server, unique


@behaviour("request-reply")
async def a_request_is_answered_by_a_consumer(server: Server) -> None:
    topic = await server.topic()
    consumer = server.pusher(unique("repliers"))

    @consumer.reply(topic, codec=str)
    async def double(message: ReceivedMessage) -> str:
        return str(message.value) * 2

    timeout = server.patience_s
    async with server.producer(codec=str) as producer:
        async with consumer:
            await consumer.settled()
            replies = await asyncio.gather(
                *(producer.request(topic, f"r{number}", timeout=timeout) for number in range(10))
            )
        with pytest.raises(RequestReplyTimeout):
            await producer.request(topic, "nobody is here", timeout=3)

    assert [reply.value for reply in replies] == [f"r{number}" * 2 for number in range(10)]


@behaviour("request-reply")
async def threads_answer_requests_too(server: Server) -> None:
    topic = await server.topic()
    consumer = server.pusher(unique("repliers"))

    @consumer.reply(topic)
    def answer(message: ReceivedMessage) -> bytes:
        return b"re: " + message.body

    async with server.producer() as producer, consumer:
        await consumer.settled()
        reply = await producer.request(topic, b"hello", timeout=server.patience_s)

    assert reply.body == b"re: hello"


@behaviour("transactions")
async def consumers_see_what_was_committed_and_nothing_else(server: Server) -> None:
    topic = await server.topic(queues=1)
    async with server.producer() as producer:
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"one", tags="t", keys="k")
            await transaction.send(topic, b"two")
        with pytest.raises(ValueError, match="no money"):
            await _fail(producer, topic)
        early = producer.transaction()
        await early.send(topic, b"rolled back")
        await early.rollback()
        await producer.send(topic, b"last")

    messages = await server.read(topic, 3)
    assert sorted(message.body for message in messages) == [b"last", b"one", b"two"]
    [one] = [message for message in messages if message.body == b"one"]
    assert (one.tags, one.keys) == ("t", ["k"])


async def _fail(producer: Producer, topic: str) -> None:
    async with producer.transaction() as transaction:
        await transaction.send(topic, b"dropped")
        raise ValueError("no money")


@behaviour("transactions")
async def a_function_decides_or_leaves_it_to_the_check(server: Server) -> None:
    topic = await server.topic(queues=1)
    asked: list[bytes] = []

    def check(message: ReceivedMessage) -> bool:
        asked.append(message.body)
        return message.body in (b"yes", b"later")

    outcomes = {b"yes": True, b"no": False, b"later": None, b"never": None}
    client = server.client()
    async with Producer(unique("deciders"), client=client, check=check) as producer, client:
        for body, outcome in outcomes.items():
            await producer.send_in_transaction(
                topic,
                body,
                execute=lambda result: outcome,  # noqa: B023 - called now
            )
        # A broker that is slow to note an end asks about it too, and may deliver twice.
        messages = await server.read_until(
            topic, lambda found: {b"yes", b"later"} <= _bodies(found)
        )
        await server.until(lambda: {b"later", b"never"} <= set(asked))

    assert _bodies(messages) == {b"later", b"yes"}


def _bodies(messages: list[ReceivedMessage]) -> set[bytes]:
    return {message.body for message in messages}


@behaviour("transactions")
async def a_broker_that_misses_the_end_asks_another_producer_of_the_group(
    server: Server,
) -> None:
    topic, group = await server.topic(queues=1), unique("payers")
    asked: list[bytes] = []

    async def check(message: ReceivedMessage) -> bool:
        asked.append(message.body)
        return message.body == b"kept"

    async with server.client() as client, Producer(group, client=client) as lost:
        transaction = lost.transaction()
        for body in (b"kept", b"dropped"):
            await transaction.send(topic, body)
        # Nobody ends it.

    async with server.client() as client, Producer(group, client=client, check=check) as producer:
        await producer.send(topic, b"hello")  # brokers know a producer that has sent
        messages = await server.read_until(
            topic, lambda found: {b"hello", b"kept"} <= _bodies(found)
        )
        await server.until(lambda: set(asked) == {b"kept", b"dropped"})

    assert _bodies(messages) == {b"hello", b"kept"}
