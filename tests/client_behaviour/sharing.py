"""Members of a group: who has which queues, and what happens when somebody comes or goes."""

import asyncio
import sys
from pathlib import Path

from emberq.aio import MessageQueue, PullConsumer, PushConsumer, ReceivedMessage
from tests.client_behaviour.scenario import behaviour
from tests.client_behaviour.server import Server, unique
from tests.support import consuming_member

MEMBER = Path(consuming_member.__file__)


def _share(member: PushConsumer, topic: str) -> set[MessageQueue]:
    return {queue for queue in member.queues if queue.topic == topic}


async def _fill(server: Server, topic: str, numbers: range) -> None:
    async with server.producer() as producer:
        await asyncio.gather(*(producer.send(topic, b"%d" % number) for number in numbers))


@behaviour()
async def members_share_queues_when_one_joins_and_when_one_leaves(server: Server) -> None:
    topic, group = await server.topic(queues=8), unique("members")
    got: list[int] = []

    def member() -> PushConsumer:
        consumer = server.pusher(group)

        @consumer.subscribe(topic)
        async def note(message: ReceivedMessage) -> None:
            got.append(int(message.body))

        return consumer

    async with member() as first:
        await server.until(lambda: len(_share(first, topic)) == 8)
        async with member() as second, member() as third:
            members = (first, second, third)
            # Both at once: numbers may fit while a member still holds what another has begun.
            await server.until(
                lambda: (
                    sorted(len(_share(each, topic)) for each in members) == [2, 3, 3]
                    and len({queue for each in members for queue in _share(each, topic)}) == 8
                )
            )
            await _fill(server, topic, range(40))
            await server.until(lambda: set(got) == set(range(40)))
        await server.until(lambda: len(_share(first, topic)) == 8)
        await _fill(server, topic, range(40, 60))
        await server.until(lambda: set(got) == set(range(60)))
    # Not each once: a queue that moves between members that stay is read again from the last
    # commit, since nobody waits for anybody.


@behaviour()
async def others_take_over_when_a_member_is_killed(server: Server) -> None:
    topic, group = await server.topic(queues=4), unique("members")
    got: set[int] = set()
    member = await asyncio.create_subprocess_exec(
        *(sys.executable, str(MEMBER), server.name_server, topic, group, "concurrent"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert member.stdout is not None
        async with asyncio.timeout(server.patience_s):
            assert await member.stdout.readline() == b"ready\n"
        consumer = server.pusher(group)

        @consumer.subscribe(topic)
        async def note(message: ReceivedMessage) -> None:
            got.add(int(message.body))

        async with consumer:
            await server.until(lambda: len(_share(consumer, topic)) == 2)
            await _fill(server, topic, range(40))
            member.kill()
            await server.until(lambda: len(_share(consumer, topic)) == 4)
            await _fill(server, topic, range(40, 60))
            handled = {int(line) for line in (await member.stdout.read()).split()}
            await server.until(lambda: got | handled == set(range(60)))
    finally:
        if member.returncode is None:
            member.kill()
        await member.wait()


@behaviour()
async def in_order_a_queue_moves_to_another_member_without_losing_its_order(
    server: Server,
) -> None:
    topic, group = await server.topic(queues=4), unique("ordered")
    got: dict[int, list[int]] = {}
    active: set[int] = set()

    def member() -> PushConsumer:
        consumer = server.pusher(group, ordered=True)

        @consumer.subscribe(topic)
        async def note(message: ReceivedMessage) -> None:
            assert message.queue_id not in active, "two members have one queue"
            active.add(message.queue_id)
            await asyncio.sleep(0.005)
            got.setdefault(message.queue_id, []).append(int(message.body))
            active.discard(message.queue_id)

        return consumer

    async def send() -> None:
        async with server.producer() as producer:
            queues = await producer.queues(topic)
            for number in range(60):
                await asyncio.gather(
                    *(producer.send(topic, b"%d" % number, queue=queue) for queue in queues)
                )

    async with member() as first:
        await server.until(lambda: len(_share(first, topic)) == 4)
        sending = asyncio.create_task(send())
        await server.until(lambda: got)
        async with member() as second:
            await server.until(
                lambda: [len(_share(each, topic)) for each in (first, second)] == [2, 2]
            )
            await sending
        await server.until(lambda: len(_share(first, topic)) == 4)
        await server.until(lambda: [len(set(each)) for each in got.values()] == [60] * 4)

    assert got == {number: list(range(60)) for number in range(4)}


@behaviour()
async def pull_consumers_share_queues_too(server: Server) -> None:
    topic, group = await server.topic(queues=4), unique("pullers")
    got: list[int] = []

    async def read(consumer: PullConsumer) -> None:
        async for message in consumer:
            got.append(int(message.body))

    async with server.puller(group) as first, server.puller(group) as second:
        await first.subscribe(topic)
        await second.subscribe(topic)
        await server.until(lambda: len(first.assignment) == len(second.assignment) == 2)
        assert not set(first.assignment) & set(second.assignment)
        reading = [asyncio.create_task(read(each)) for each in (first, second)]
        await _fill(server, topic, range(40))
        await server.until(lambda: set(got) == set(range(40)))
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)

    assert len(got) == 40
