"""How often offsets are told to brokers that give no answer, and in which order."""

from emberq.client.aio.offset_stores import BrokerOffsets
from emberq.client.aio.queue_calls import QueueCalls, firsts_and_others
from emberq.model.queue import MessageQueue

FIRST, SECOND = (MessageQueue("broker-a", number, "T") for number in range(2))


class NotedCalls(QueueCalls):
    def __init__(self) -> None:
        self.told: list[tuple[int, int, bool]] = []

    async def commit(
        self, group: str, queue: MessageQueue, offset: int, *, is_oneway: bool = True
    ) -> None:
        self.told.append((queue.queue_id, offset, is_oneway))


async def test_an_offset_is_told_twice_and_then_rests() -> None:
    calls = NotedCalls()
    offsets = BrokerOffsets(calls, "G")

    offsets.note(FIRST, 5)
    for _ in range(4):
        await offsets.save([FIRST, SECOND])
    offsets.note(FIRST, 6)
    for _ in range(4):
        await offsets.save([FIRST, SECOND])

    assert calls.told == [(0, 5, True)] * 2 + [(0, 6, True)] * 2


async def test_what_was_handed_over_is_not_told_again_but_behind_a_restart() -> None:
    calls = NotedCalls()
    offsets = BrokerOffsets(calls, "G")
    offsets.note(FIRST, 5)

    await offsets.hand_over([FIRST, SECOND])
    await offsets.save([FIRST])
    offsets.say_again()
    await offsets.save([FIRST])

    assert calls.told == [(0, 5, False), (0, 5, True)]


def test_the_first_queue_of_each_topic_and_broker_goes_ahead() -> None:
    queues = [MessageQueue(*each) for each in (("a", 0, "T"), ("a", 1, "T"), ("b", 0, "T"))]
    other = MessageQueue("a", 1, "U")

    firsts, others = firsts_and_others([*queues, other])

    assert firsts == [queues[0], queues[2], other]
    assert others == [queues[1]]
