"""The first message at or after a time, from brokers whose request for it means something else."""

import asyncio
from bisect import bisect_left
from pathlib import Path

import pytest

from emberq.client.aio.scans import Scans
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import EmberqCode, RequestCode
from emberq.protocol.command import Command, answer
from emberq.remoting.connection import Connection
from emberq.store.reader import ReadLimits
from tests.integration.client.scanning import EMPTY, QUEUE, Scanned, scanned

pytestmark = pytest.mark.integration

T = 1_700_000_000_000
FUTURE = T + 10**9
ONE = ReadLimits(count_max=1)
PULL, BY_TIME = RequestCode.PULL_MESSAGE, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP


@pytest.fixture(params=["own", "4.9", "5.5"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def answer_as_4_9(it: Scanned) -> None:
    """A hit of the binary search, whichever; else the nearer neighbour, of two the left one; else
    the one that there is."""
    store = it.cluster.broker.store

    def by_time(command: Command, _: Connection) -> Command:
        fields = command.fields or {}
        topic, queue_id = fields["topic"], int(fields["queueId"])
        wanted = int(fields["timestamp"])
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id) - 1
        left = right = None
        while low <= high:
            middle = (low + high) // 2
            time_ms = store.stored_at_ms(topic, queue_id, middle)
            if time_ms == wanted:
                return answer(command, fields={"offset": str(middle)})
            if time_ms < wanted:
                left, low = (wanted - time_ms, middle), middle + 1
            else:
                right, high = (time_ms - wanted, middle), middle - 1
        near = min(each for each in (left, right, (1 << 62, 0)) if each is not None)
        if left is not None and right is not None and left[0] <= right[0]:
            near = left
        return answer(command, fields={"offset": str(near[1])})

    it.answer(BY_TIME, by_time)


async def found(it: Scanned, *times_ms: int) -> list[int]:
    return [(await it.scans.offsets_by_time({QUEUE: time_ms}))[QUEUE] for time_ms in times_ms]


async def test_a_time_means_the_first_message_stored_at_or_after_it(
    tmp_path: Path, kind: str
) -> None:
    async with scanned(tmp_path, is_official=kind != "own") as it:
        if kind == "4.9":
            answer_as_4_9(it)
        await it.put_at(*(T + ms for ms in (1000, 1000, 1000, 2000)))

        # Nobody has asked for heads before: what kind of broker it is, is not known yet.
        offsets = await found(it, T + 1000, T + 1500, T + 2000, T + 2001, FUTURE, 0)
        empty = await it.scans.offsets_by_time({QUEUE: T, EMPTY: T})

        assert offsets == [0, 3, 3, 4, 4, 0]
        assert empty == {QUEUE: 0, EMPTY: 0}
        assert await it.scans.offsets_by_time({}) == {}


async def test_every_time_of_a_long_queue_is_found_with_few_requests(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=True) as it:
        answer_as_4_9(it)
        times_ms = [T + 10 * (number // 7) for number in range(300)]
        await it.put_at(*times_ms)
        codes = it.counted()

        for time_ms in range(T - 5, times_ms[-1] + 15, 5):
            codes.clear()
            assert await found(it, time_ms) == [bisect_left(times_ms, time_ms)]
            assert codes.count(PULL) <= 6


async def test_a_time_asked_from_our_own_brokers_is_one_request_more_than_the_heads(
    tmp_path: Path,
) -> None:
    async with scanned(tmp_path, is_official=False) as it:
        await it.put_at(T, T + 1)
        codes = it.counted()

        assert await found(it, T + 1) == [1]

        assert [code for code in codes if code in (*EmberqCode, PULL, BY_TIME)] == [
            EmberqCode.SCAN_HEADS,
            BY_TIME,
        ]


async def test_messages_that_expire_while_a_time_is_looked_for_are_passed_over(
    tmp_path: Path,
) -> None:
    async with scanned(tmp_path, is_official=True) as it:
        await it.put_at(*(T + number for number in range(20)))
        pulls: list[int] = []

        def moved(command: Command, _: Connection) -> Command:
            """As 4.9 answers for messages before the queue's first one."""
            offset = int((command.fields or {})["queueOffset"])
            pulls.append(offset)
            fields = {"minOffset": "12", "maxOffset": "20", "suggestWhichBrokerId": "0"}
            if offset < 12:
                return answer(command, 21, fields={**fields, "nextBeginOffset": "12"})
            content = it.cluster.broker.store.read_waiting("T", 0, offset, ONE).parts[0]
            fields["nextBeginOffset"] = str(offset + 1)
            return answer(command, fields=fields, body=bytes(content))

        it.answer(PULL, moved)

        assert await found(it, T + 5, T + 14) == [12, 14]
        assert max(pulls) < 20


async def test_many_queues_are_asked_for_at_once(tmp_path: Path) -> None:
    async with scanned(tmp_path, is_official=True) as it:
        answer_as_4_9(it)
        await it.put_at(*(T + number // 2 for number in range(40)))
        queues = [MessageQueue("broker-a", number, "T") for number in range(4)]

        results = await asyncio.gather(
            *(Scans(it.client).offsets_by_time(dict.fromkeys(queues, T + 9)) for _ in range(5))
        )

        assert results == [{queues[0]: 18, queues[1]: 0, queues[2]: 0, queues[3]: 0}] * 5
