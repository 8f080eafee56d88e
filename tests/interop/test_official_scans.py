"""Scans of official brokers, without Spark: what 4.9 and 5.5 make of times, groups and damage."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emberq.aio import Client, Message, MessageQueue, Producer, PushConsumer, ReceivedMessage
from emberq.client.aio.scans import Scans
from emberq.errors import NoPermission
from emberq.record.decode import iter_records
from tests.interop.harness.cluster import BROKER_NAME, Cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

DEADLINE_S = 60.0


class Shop:
    """One queue at the official broker."""

    def __init__(self, client: Client, producer: Producer, topic: str) -> None:
        self.client = client
        self.producer = producer
        self.topic = topic
        self.queue = MessageQueue(BROKER_NAME, 0, topic)

    async def send(self, *bodies: bytes) -> None:
        """One batch: its messages are stored at the same time, and those of the next one later."""
        end = await self.producer.max_offset(self.queue) + len(bodies)
        messages = [Message(self.topic, body) for body in bodies]
        await self.producer.send_batch(messages, queue=self.queue)
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if await self.producer.max_offset(self.queue) == end:
                    break
                await asyncio.sleep(0.01)
        stored_ms = (await self.times_ms())[-1]
        # The broker's clock is this machine's.
        await until(lambda: time.time_ns() // 1_000_000 > stored_ms + 2)

    async def times_ms(self) -> list[int]:
        """When each message was stored."""
        end = await self.producer.max_offset(self.queue)
        return [stored_at_ms for _, stored_at_ms in await self.read(0, end)]

    async def read(self, start: int, end: int) -> list[tuple[int, int]]:
        """Offsets and store times of a range."""
        found: list[tuple[int, int]] = []
        scans, offset = Scans(self.client), start
        while offset < end:
            part = await scans.pull(self.queue, offset, end)
            found += [
                (record.queue_offset, record.stored_at_ms)
                for record in iter_records(part.content)
                if record.queue_offset < end
            ]
            assert part.next_offset > offset
            offset = part.next_offset
        return found


@pytest.fixture
async def shop(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    topic = request.node.originalname
    address = cluster.emberq.address
    async with (
        Client(address) as client,
        Producer("scan-shop", client=client, send_timeout=DEADLINE_S) as producer,
    ):
        await producer.create_topic(topic, queues=1)
        yield Shop(client, producer, topic)


async def test_ranges_by_time_have_exactly_the_messages_of_that_time(shop: Shop) -> None:
    sizes = (3, 1, 40, 2, 5)
    for number, size in enumerate(sizes):
        await shop.send(*(b"%d-%d" % (number, each) for each in range(size)))
    times_ms = await shop.times_ms()
    moments = sorted(set(times_ms))
    assert len(moments) == len(sizes)

    for wanted_ms in [
        0,
        *(moment + by for moment in moments for by in (-1, 0, 1)),
        (moments[1] + moments[2]) // 2,
        moments[-1] + 3_600_000,
    ]:
        # A client of its own each: what kind of broker it is, is not known yet.
        found = (await Scans(shop.client).offsets_by_time({shop.queue: wanted_ms}))[shop.queue]
        assert found == sum(time_ms < wanted_ms for time_ms in times_ms), (wanted_ms, times_ms)

    starts, ends = moments[1:3], (moments[2] + 1, moments[3])
    for start_ms, end_ms in zip(starts, ends, strict=True):
        scans = Scans(shop.client)
        start = (await scans.offsets_by_time({shop.queue: start_ms}))[shop.queue]
        end = (await scans.offsets_by_time({shop.queue: end_ms}))[shop.queue]
        rows = await shop.read(start, end)
        assert rows == [
            (offset, time_ms)
            for offset, time_ms in enumerate(times_ms)
            if start_ms <= time_ms < end_ms
        ]


async def test_a_group_that_is_consumed_with_is_not_moved(shop: Shop, cluster: Cluster) -> None:
    await shop.send(b"1", b"2", b"3")
    group = f"service-{shop.topic}"
    got: list[bytes] = []
    consumer = PushConsumer(
        group, name_server=cluster.emberq.address, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )

    @consumer.subscribe(shop.topic)
    async def handle(message: ReceivedMessage) -> None:
        got.append(message.body)

    async with consumer:
        await until(lambda: len(got) == 3, DEADLINE_S)
        with pytest.raises(NoPermission, match=r"are online \(1\)"):
            await Scans(shop.client).commit(group, {shop.queue: 3})
        with pytest.raises(NoPermission, match=r"are online \(1\)"):
            await Scans(shop.client).pin(group, {shop.queue: 3})

    # Behind its end the group may be taken over; its offset is committed as it stops.
    await Scans(shop.client).commit(group, {shop.queue: 3})
    heads = await Scans(shop.client).heads([shop.queue], group)
    assert heads[shop.queue].committed == 3


async def test_offsets_only_move_forward(shop: Shop) -> None:
    await shop.send(b"1", b"2", b"3")
    group = f"lake-{shop.topic}"
    scans = Scans(shop.client)

    for offset in (0, 2, 1, 3, 2):
        await scans.commit(group, {shop.queue: offset})

    assert (await scans.heads([shop.queue], group))[shop.queue].committed == 3


async def test_a_message_that_is_damaged_in_the_log_is_left_out_and_named(
    shop: Shop, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    marked = f"damaged {shop.topic}".encode()
    await shop.send(b"1", marked, b"3")
    [file] = sorted((cluster.broker.home / "store" / "commitlog").iterdir())[:1]
    at = find(file, marked)
    flip(file, at)  # the broker maps the file, and sees it

    rows = await shop.read(0, 3)
    flip(file, at)

    assert [offset for offset, _ in rows] == [0, 2]
    assert f"messages_damaged queue={shop.topic} {BROKER_NAME}/0 offsets=(1,)" in caplog.text
    assert [offset for offset, _ in await shop.read(0, 3)] == [0, 1, 2]


def find(path: Path, wanted: bytes) -> int:
    """Where bytes first lie in a file that is mostly empty."""
    with path.open("rb") as file:
        position, tail = 0, b""
        while chunk := file.read(1 << 20):
            at = (tail + chunk).find(wanted)
            if at >= 0:
                return position - len(tail) + at
            position += len(chunk)
            tail = chunk[-len(wanted) :]
    raise AssertionError(f"{wanted!r} is not in {path}")


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes((byte ^ 1,)))
