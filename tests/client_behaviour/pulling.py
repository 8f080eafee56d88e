"""Pull consumers: positions, commits, single queues; and administration at hand."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from emberq.aio import Message, PullConsumer, ReceivedMessage
from emberq.errors import ClientError, ConfigError, MessageNotFound
from tests.client_behaviour.scenario import behaviour
from tests.client_behaviour.server import Server, unique

PATIENT = timedelta(seconds=2)


async def _numbers(server: Server, topic: str, count: int) -> None:
    async with server.producer() as producer:
        await producer.send_batch(Message(topic, b"%d" % number) for number in range(count))


async def _take(server: Server, consumer: PullConsumer, count: int) -> list[int]:
    got: list[ReceivedMessage] = []
    async with asyncio.timeout(server.patience_s):
        while len(got) < count:
            got += await consumer.poll(count - len(got), timeout=PATIENT)
    return [int(message.body) for message in got]


@behaviour()
async def a_group_that_pulls_goes_on_behind_what_it_has_finished(server: Server) -> None:
    topic, group = await server.topic(queues=1), unique("pullers")
    await _numbers(server, topic, 10)

    async with server.puller(group) as consumer:
        await consumer.subscribe(topic)
        await consumer.settled()
        assert len(consumer.assignment) == 1
        assert await _take(server, consumer, 4) == [0, 1, 2, 3]
        await consumer.commit()
        [queue] = consumer.assignment
        assert await consumer.committed(queue) == 4
    async with server.puller(group) as consumer:
        await consumer.subscribe(topic)
        async for message in consumer:
            assert int(message.body) == 4
            break


@behaviour()
async def queues_can_be_assigned_and_positions_chosen(server: Server) -> None:
    topic = await server.topic(queues=2)
    async with server.producer() as producer:
        first, second = await producer.queues(topic)
        for number in range(6):
            await producer.send(topic, b"%d" % number, queue=first)
        await producer.send(topic, b"99", queue=second)

    async with server.puller(unique("pullers")) as consumer:
        await consumer.assign([first])
        assert await _take(server, consumer, 6) == list(range(6))
        await consumer.seek(first, 4)
        assert await _take(server, consumer, 2) == [4, 5]
        await consumer.seek_to_begin(first)
        assert await _take(server, consumer, 1) == [0]
        await consumer.seek_to_end(first)
        assert await consumer.poll(timeout=timedelta(seconds=0.3)) == []
        with pytest.raises(ClientError):
            await consumer.seek(first, 1000)
        with pytest.raises(ClientError):
            await consumer.seek(second, 0)
        with pytest.raises(ConfigError):
            await consumer.subscribe(topic)
        await consumer.assign([second])
        assert await _take(server, consumer, 1) == [99]


@behaviour()
async def a_position_can_be_found_by_time(server: Server) -> None:
    topic = await server.topic(queues=1)
    async with server.producer() as producer:
        [queue] = await producer.queues(topic)
        for number in range(3):
            await producer.send(topic, b"%d" % number)
        await asyncio.sleep(0.3)  # 4.9 brokers find the nearest message, 5.x ones the next
        for number in range(3, 6):
            await producer.send(topic, b"%d" % number)
    messages = await server.read(topic, 6)
    between = messages[3].stored_at - timedelta(milliseconds=1)

    async with server.puller(unique("pullers")) as consumer:
        await consumer.assign([queue])
        offset = await consumer.offset_for_time(queue, between)
        await consumer.seek(queue, offset)
        assert await _take(server, consumer, 3) == [3, 4, 5]


@behaviour()
async def a_paused_queue_is_not_pulled(server: Server) -> None:
    topic = await server.topic(queues=2)
    async with server.producer() as producer, server.puller(unique("pullers")) as consumer:
        first, second = await producer.queues(topic)
        await consumer.assign([first, second])
        consumer.pause(first)
        got: list[int] = []
        for number in range(5):
            await producer.send(topic, b"1%d" % number, queue=first)
            await producer.send(topic, b"2%d" % number, queue=second)
            async with asyncio.timeout(server.patience_s):
                while 20 + number not in got:
                    got += [int(message.body) for message in await consumer.poll(timeout=PATIENT)]
        got += [int(m.body) for m in await consumer.poll(timeout=timedelta(seconds=0.3))]
        # A pull that was under way brings what it finds; none follows.
        assert not {*range(10, 15)} <= {*got}
        consumer.resume(first)
        got += await _take(server, consumer, 10 - len(got))

    assert sorted(got) == [*range(10, 15), *range(20, 25)]


@behaviour()
async def tags_and_sql_choose_what_is_pulled(server: Server) -> None:
    topic = await server.topic(queues=1)
    async with server.producer() as producer:
        for number in range(6):
            tags = "even" if number % 2 == 0 else "odd"
            await producer.send(topic, b"%d" % number, tags=tags, properties={"n": str(number)})

    async with server.puller(unique("tagged")) as consumer:
        await consumer.subscribe(topic, tags="even")
        assert await _take(server, consumer, 3) == [0, 2, 4]
    async with server.puller(unique("chosen")) as consumer:
        await consumer.subscribe(topic, sql="n >= 4")
        assert await _take(server, consumer, 2) == [4, 5]


@behaviour()
async def topics_offsets_and_messages_are_at_hand(server: Server) -> None:
    topic = await server.topic(queues=2)
    async with server.producer() as producer:
        queue, empty = await producer.queues_of(topic)
        result = await producer.send(topic, b"x", keys=["order-1", "order-2"], queue=queue)
        await producer.send(topic, b"y", keys="order-2", queue=queue)

        await server.read(topic, 2)  # official brokers fill queues after they have answered
        assert (await producer.min_offset(queue), await producer.max_offset(queue)) == (0, 2)
        assert await producer.max_offset(empty) == 0
        later = datetime.now(UTC) + timedelta(hours=1)
        assert await producer.offset_by_time(queue, later) in (1, 2)  # 4.9: the last message
        earliest = await producer.earliest_store_time(queue)
        assert earliest is not None
        assert abs(earliest - datetime.now(UTC)) < timedelta(minutes=1)
        assert (await producer.view_message(result.offset_message_id)).body == b"x"
        with pytest.raises(MessageNotFound):
            await producer.view_message(result.offset_message_id[:-8] + "0FFFFFFF")

        found: list[ReceivedMessage] = []
        async with asyncio.timeout(server.patience_s):  # the index is written a little later
            while len(found) < 2:
                found = await producer.query_messages(topic, "order-2")
        assert [message.body for message in found] == [b"x", b"y"]
        [by_id] = await producer.query_messages(topic, result.message_id)
        assert by_id.body == b"x"


@behaviour()
async def a_namespace_is_seen_by_nobody_inside_it(server: Server) -> None:
    space = unique("space")
    topic, group = await server.topic(namespace=space), unique("readers")
    got: list[ReceivedMessage] = []
    async with server.client(namespace=space) as client:
        consumer = server.pusher(group, client=client)

        @consumer.subscribe(topic)
        async def note(message: ReceivedMessage) -> None:
            got.append(message)

        async with server.producer(client=client) as producer, consumer:
            result = await producer.send(topic, b"inside")
            await server.until(lambda: got)

    assert (result.queue.topic, got[0].topic) == (topic, topic)
    [message] = await server.read(f"{space}%{topic}", 1)
    assert (message.body, message.properties["INSTANCE_ID"]) == (b"inside", space)


@behaviour("tls")
async def everything_can_be_encrypted(server: Server) -> None:
    topic = await server.topic(tls=True)
    async with server.client(tls=True) as client, server.producer(client=client) as producer:
        await producer.send(topic, b"secret" * 10_000)

    [message] = await server.read(topic, 1, tls=True)
    assert message.body == b"secret" * 10_000
