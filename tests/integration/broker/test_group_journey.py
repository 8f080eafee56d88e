"""A group shares the queues of a topic in order, loses a member, and loses no message."""

from pathlib import Path

import pytest

from emberq.broker.assignment import share_of
from emberq.model.queue import MessageQueue
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.record.decode import iter_records
from tests.integration.broker.running import BROKER_NAME, RawClient, broker, clients

pytestmark = pytest.mark.integration

QUEUES = [MessageQueue(BROKER_NAME, queue_id, "T") for queue_id in range(4)]
PER_QUEUE = 10
WAITS_AND_CARRIES_ITS_SUBSCRIPTION = "6"


async def send(producer: RawClient, queue_id: int, number: int) -> None:
    fields = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0"}
    fields |= {"g": "1700000000000", "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
    body = f"{queue_id}-{number}".encode()
    assert (await producer.ask(RequestCode.SEND_MESSAGE_V2, fields, body)).code == 0


class Consumer:
    """As much of a client as a group needs: shares, locks, pulls in order, commits."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self.consumed: list[str] = []

    async def share(self) -> list[int]:
        ids = await self._client.members("G")
        own = share_of(self._client.client_id, ids, QUEUES, "AVG")
        return [queue.queue_id for queue in own or []]

    async def lock(self, *queue_ids: int) -> list[int]:
        return await self._client.lock(RequestCode.LOCK_BATCH_MQ, "G", *queue_ids)

    async def consume(self, queue_id: int, count: int) -> None:
        """Go on where the group stands, in the order of the queue."""
        place = {"consumerGroup": "G", "topic": "T", "queueId": str(queue_id)}
        known = await self._client.ask(RequestCode.QUERY_CONSUMER_OFFSET, place)
        offset = int((known.fields or {})["offset"]) if known.code == 0 else 0
        pull = place | {
            "queueOffset": str(offset),
            "maxMsgNums": str(count),
            "sysFlag": WAITS_AND_CARRIES_ITS_SUBSCRIPTION,
            "commitOffset": "0",
            "suspendTimeoutMillis": "5000",
            "subscription": "*",
            "subVersion": "1",
            "expressionType": "TAG",
        }
        found = await self._client.ask(RequestCode.PULL_MESSAGE, pull)
        assert found.code == ResponseCode.SUCCESS, found.remark
        self.consumed += [bytes(record.body).decode() for record in iter_records(found.body)]
        commit = place | {"commitOffset": (found.fields or {})["nextBeginOffset"]}
        assert (await self._client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0

    async def hears_of_a_change(self) -> None:
        while (await self._client.next_push()).code != RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            pass


async def test_what_a_killed_member_had_not_finished_is_consumed_by_the_other_in_order(
    tmp_path: Path,
) -> None:
    keys = {"rocketmq.broker.rebalance.lockMaxLiveTime": "200"}
    async with (
        broker(tmp_path, **keys) as running,
        clients(running, "a", "b", "producer") as (a, b, producer),
    ):
        running.topics.put(TopicConfig(name="T", read_queue_count=4, write_queue_count=4))
        for number in range(PER_QUEUE):
            for queue in QUEUES:
                await send(producer, queue.queue_id, number)
        first, second = Consumer(a), Consumer(b)
        await a.beat("G", "T")
        await b.beat("G", "T")
        assert await first.share() == [0, 1]
        assert await second.share() == [2, 3]
        for consumer in (first, second):
            for queue_id in await consumer.lock(*await consumer.share()):
                await consumer.consume(queue_id, PER_QUEUE // 2)
        a.pushed.clear()

        b.peer.reset()
        await first.hears_of_a_change()
        assert await first.share() == [0, 1, 2, 3]
        while await first.lock(0, 1, 2, 3) != [0, 1, 2, 3]:
            pass  # the other one's locks outlive it, for a while
        for queue in QUEUES:
            await first.consume(queue.queue_id, PER_QUEUE)

        expected = {
            queue.queue_id: [f"{queue.queue_id}-{number}" for number in range(PER_QUEUE)]
            for queue in QUEUES
        }
        everything = second.consumed + first.consumed
        assert len(everything) == len(QUEUES) * PER_QUEUE
        for queue_id, bodies in expected.items():
            assert [body for body in everything if body.startswith(f"{queue_id}-")] == bodies
