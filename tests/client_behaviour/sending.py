"""Producers: every way to send, and that what was sent is what arrives."""

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from emberq.aio import Compression, CompressionType, Message, MessageQueue, SendStatus
from emberq.errors import BrokerError, MessageRefused
from tests.client_behaviour.scenario import behaviour
from tests.client_behaviour.server import Server, unique


@behaviour()
async def a_message_arrives_as_it_was_sent(server: Server) -> None:
    topic = await server.topic()
    async with server.producer() as producer:
        result = await producer.send(
            Message(topic, b"body", "tag", ["k1", "k2"], {"colour": "grün"}, flag=7)
        )

    [message] = await server.read(topic, 1)
    assert result.status is SendStatus.SEND_OK
    assert (message.body, message.tags, message.keys, message.flag) == (
        *(b"body", "tag", ["k1", "k2"]),
        7,
    )
    assert message.properties["colour"] == "grün"
    assert (message.message_id, message.offset_message_id) == (
        result.message_id,
        result.offset_message_id,
    )
    assert (message.queue, message.queue_offset) == (result.queue, result.queue_offset)
    assert abs(message.born_at - datetime.now(UTC)) < timedelta(minutes=1)


@behaviour()
async def many_sends_at_once_all_arrive_and_use_all_queues(server: Server) -> None:
    topic = await server.topic(queues=4)
    bodies = [b"%d" % number for number in range(200)]
    async with server.producer() as producer:
        results = await asyncio.gather(*(producer.send(topic, body) for body in bodies))

    messages = await server.read(topic, 200)
    assert sorted(message.body for message in messages) == sorted(bodies)
    assert {result.queue.queue_id for result in results} == {0, 1, 2, 3}
    assert len({result.message_id for result in results}) == 200


@behaviour()
async def oneway_messages_arrive(server: Server) -> None:
    topic = await server.topic()
    async with server.producer() as producer:
        for number in range(20):
            await producer.send_oneway(topic, b"%d" % number, tags="t")

    messages = await server.read(topic, 20)
    assert sorted(int(message.body) for message in messages) == list(range(20))


@behaviour()
async def a_batch_arrives_in_order_in_one_queue(server: Server) -> None:
    topic = await server.topic()
    async with server.producer() as producer:
        [result] = await producer.send_batch(
            Message(topic, b"%d" % number, tags="t", keys=f"k{number}") for number in range(30)
        )

    messages = await server.read(topic, 30)
    assert [int(message.body) for message in messages] == list(range(30))
    assert [message.keys for message in messages] == [[f"k{number}"] for number in range(30)]
    assert {message.queue for message in messages} == {result.queue}
    assert ",".join(message.message_id for message in messages) == result.message_id


@behaviour()
async def single_sends_that_linger_travel_together_and_know_their_places(server: Server) -> None:
    topic = await server.topic()
    async with server.producer(linger=0.05) as producer:
        results = await asyncio.gather(
            *(producer.send(topic, b"%d" % number) for number in range(50))
        )

    messages = {message.message_id: message for message in await server.read(topic, 50)}
    for number, result in enumerate(results):
        message = messages[result.message_id]
        assert (message.body, message.queue, message.queue_offset) == (
            *(b"%d" % number, result.queue),
            result.queue_offset,
        )


@behaviour()
async def a_queue_a_selector_or_a_key_decides_the_queue(server: Server) -> None:
    topic = await server.topic(queues=4)

    def last(queues: Sequence[MessageQueue], _: Message) -> MessageQueue:
        return queues[-1]

    async with server.producer() as producer:
        queues = await producer.queues(topic)
        direct = await producer.send(topic, b"direct", queue=queues[2])
        selected = await producer.send(topic, b"selected", selector=last)
        keyed = [await producer.send(topic, b"%d" % n, ordering_key="order-7") for n in range(5)]

    assert (direct.queue, selected.queue) == (queues[2], queues[-1])
    # The queue that Java chooses: the absolute remainder of its string hash.
    assert {result.queue.queue_id for result in keyed} == {_java_hash("order-7") % 4}


def _java_hash(text: str) -> int:
    value = 0
    for unit in text.encode():
        value = (31 * value + unit) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return abs(signed)


@behaviour()
async def a_delay_level_keeps_a_message_back(server: Server) -> None:
    topic = await server.topic()
    async with server.producer() as producer:
        await producer.send(topic, b"late", delay=1)
        await producer.send(topic, b"now")

    messages = {message.body: message for message in await server.read(topic, 2)}
    assert messages.keys() == {b"now", b"late"}
    late = messages[b"late"]
    assert late.stored_at - late.born_at >= timedelta(seconds=0.9)


@behaviour("timers")
async def a_time_to_wait_or_a_moment_keeps_a_message_back(server: Server) -> None:
    topic = await server.topic()
    async with server.producer() as producer:
        await producer.send(topic, b"waited", delay=timedelta(seconds=2))
        await producer.send(topic, b"moment", delay=datetime.now(UTC) + timedelta(seconds=2))
        await producer.send(topic, b"now")

    messages = {message.body: message for message in await server.read(topic, 3)}
    assert messages.keys() == {b"now", b"waited", b"moment"}
    later = messages[b"waited"], messages[b"moment"]
    assert all(each.stored_at - each.born_at >= timedelta(seconds=1) for each in later)


@behaviour()
async def bodies_of_every_compression_arrive_whole(server: Server) -> None:
    topic = await server.topic()
    text = b"all work and no play " * 1000
    for kind in CompressionType:
        compression = Compression(above_bytes=1, kind=kind)
        async with server.producer(compression=compression) as producer:
            await producer.send(topic, text, tags=kind.name)

    messages = await server.read(topic, len(CompressionType))
    assert {message.tags for message in messages} == {kind.name for kind in CompressionType}
    assert all(message.body == text for message in messages)
    assert all(message.size < len(text) / 10 for message in messages)


@behaviour()
async def large_bodies_arrive_and_larger_ones_are_refused(server: Server) -> None:
    topic = await server.topic()
    body = os.urandom(3 * 1024 * 1024)
    async with server.producer(compression=Compression(above_bytes=None)) as producer:
        await producer.send(topic, body)
        with pytest.raises(MessageRefused):
            await producer.send(topic, bytes(4 * 1024 * 1024 + 1))

    [message] = await server.read(topic, 1)
    assert message.body == body


@behaviour()
async def a_topic_is_made_by_its_first_message(server: Server) -> None:
    topic = unique("made")
    async with server.producer(new_topic_queues=3) as producer:
        await producer.send(topic, b"x")
        await server.until(lambda: producer.client.routes.known(topic))

    [message] = await server.read(topic, 1)
    assert message.body == b"x"


@behaviour()
async def what_a_broker_refuses_says_why(server: Server) -> None:
    topic = await server.topic(queues=1)
    async with server.producer() as producer:
        [queue] = await producer.queues(topic)
        nowhere = MessageQueue(queue.broker_name, 99, topic)
        with pytest.raises(BrokerError) as caught:
            await producer.send(topic, b"x", queue=nowhere)

    assert caught.value.code in (1, 29)  # 4.9, 5.x
    assert "queueId" in (caught.value.remark or "")


@behaviour()
async def traces_of_sends_are_found_by_the_message_id(server: Server) -> None:
    topic, trace_topic = await server.topic(), await server.topic(queues=1)
    async with server.producer(trace=trace_topic) as producer:
        result = await producer.send(topic, b"x", keys="k")

    [message] = await server.read(trace_topic, 1)
    fields = message.text().split("\x02")[0].split("\x01")
    assert (fields[0], fields[4], fields[5]) == ("Pub", topic, result.message_id)
    assert message.keys == [result.message_id, "k"]
