"""The client for threads: the main paths, from a thread as its users have it."""

import asyncio
import time
from collections.abc import Callable

import emberq
from tests.client_behaviour.scenario import behaviour
from tests.client_behaviour.server import FIRST, Server, unique


def _until(server: Server, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + server.patience_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@behaviour()
async def threads_send_and_consume(server: Server) -> None:
    topic = await server.topic()
    await asyncio.to_thread(_send_and_consume, server, topic)


def _send_and_consume(server: Server, topic: str) -> None:
    got: list[bytes] = []
    with emberq.Client(server.name_server) as client:
        consumer = emberq.PushConsumer(unique("readers"), client=client, consume_from_where=FIRST)

        @consumer.subscribe(topic)
        def note(message: emberq.ReceivedMessage) -> None:
            got.append(message.body)

        with emberq.Producer("writers", client=client) as producer, consumer:
            producer.send(topic, b"sent")
            producer.send_oneway(topic, b"oneway")
            producer.send_batch([emberq.Message(topic, b"b0"), emberq.Message(topic, b"b1")])
            for future in [producer.submit(topic, b"s%d" % number) for number in range(10)]:
                future.result(server.patience_s)
            _until(server, lambda: len(got) >= 14)
            assert sum(lag.messages for lag in consumer.lag()) >= 0

    assert sorted(got) == sorted(
        [b"sent", b"oneway", b"b0", b"b1", *(b"s%d" % number for number in range(10))]
    )


@behaviour()
async def threads_pull_and_look_around(server: Server) -> None:
    topic = await server.topic(queues=1)
    await asyncio.to_thread(_pull, server, topic)


def _pull(server: Server, topic: str) -> None:
    with (
        emberq.Producer("writers", name_server=server.name_server) as producer,
        emberq.PullConsumer(
            unique("pullers"), name_server=server.name_server, consume_from_where=FIRST
        ) as consumer,
    ):
        result = producer.send(topic, b"0")
        producer.send(topic, b"1")
        [queue] = producer.queues_of(topic)
        # Official brokers fill the queue a moment after they have answered.
        _until(server, lambda: producer.max_offset(queue) == 2)
        assert producer.view_message(result.offset_message_id).body == b"0"
        consumer.subscribe(topic)
        bodies = []
        for message in consumer:
            bodies.append(message.body)
            if len(bodies) == 2:
                break
        consumer.commit()
        assert consumer.committed(queue) == 2
        consumer.seek_to_begin(queue)
        assert [message.body for message in consumer.poll(1)] == [b"0"]

    assert bodies == [b"0", b"1"]
