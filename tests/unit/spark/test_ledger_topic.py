"""The ledger in its topic: where it is believed to be, and what is read of it."""

import time
from datetime import datetime
from typing import Any
from unittest.mock import Mock

import pytest

from emberq.client.aio.at_hand import QUERY_COUNT
from emberq.client.core.received import ReceivedMessage
from emberq.errors import BrokerError, BrokerNotFound, NoNameServer
from emberq.model.queue import MessageQueue
from emberq.spark import ledger_topic
from emberq.spark.batch_ledger import AbortDecision, encode_decision
from emberq.spark.ledger_topic import LedgerTopic
from emberq.spark.sink_options import parse_sink

OPTIONS = parse_sink({"nameServer": "here:9876", "retries": "0", "brokerWaitMs": "0"})


class Broker:
    """A producer's view of it: messages of one key, found by time, the newest first."""

    def __init__(self) -> None:
        self.client = Mock()
        self.client.wrap = str
        self.messages: list[Any] = []
        self.is_away = False

    def store(self, body: bytes, stored_at_ms: int) -> None:
        message = Mock(spec=ReceivedMessage)
        message.body, message.stored_at_ms = body, stored_at_ms
        message.queue_offset = len(self.messages)
        self.messages.append(message)

    async def query_messages(
        self, topic: str, key: str, *, end: datetime | None = None, **how: Any
    ) -> list[Any]:
        if self.is_away:
            raise BrokerError(1, "no", "broker-a")
        end_ms = 1 << 62 if end is None else round(end.timestamp() * 1000)
        # The index knows seconds.
        found = [each for each in self.messages if each.stored_at_ms // 1000 * 1000 <= end_ms]
        return found[-QUERY_COUNT:]


class Place:
    """Where the ledger is, as name servers say."""

    def __init__(self) -> None:
        self.broker = "broker-a"
        self.failure: Exception | None = None

    async def find(self, *, is_new_writer: bool) -> MessageQueue:
        if self.failure is not None:
            raise self.failure
        return MessageQueue(self.broker, 0, "ledger")


class Ledger(LedgerTopic):
    def __init__(self) -> None:
        self.broker, self.place = Broker(), Place()
        nothing: Any = None
        producer: Any = self.broker
        super().__init__(nothing, producer, OPTIONS)
        place: Any = self.place
        self._place = place

    async def broker_name(self) -> str:
        await self.ready(is_new_writer=False)
        assert self._queue is not None
        return self._queue.broker_name


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


async def test_decisions_are_read_however_many_a_batch_has(ledger: Ledger) -> None:
    await ledger.ready(is_new_writer=False)
    writes = {f"w{number}" for number in range(3 * QUERY_COUNT + 5)}
    for number, write in enumerate(sorted(writes)):
        decision = AbortDecision(id=str(number), writes=(write,))
        ledger.broker.store(encode_decision(decision), 1_700_000_000_000 + 300 * number)

    assert (await ledger.outcome("query-0")).aborted == writes


async def test_what_comes_all_in_one_second_is_read_as_far_as_brokers_tell(
    ledger: Ledger,
) -> None:
    await ledger.ready(is_new_writer=False)
    for number in range(QUERY_COUNT + 5):
        decision = AbortDecision(id=str(number), writes=(str(number),))
        ledger.broker.store(encode_decision(decision), 1_700_000_000_000)

    assert len((await ledger.outcome("query-0")).aborted) == QUERY_COUNT


async def test_where_the_ledger_is_is_read_again_after_a_time(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ledger.broker_name() == "broker-a"
    ledger.place.broker = "broker-b"
    assert await ledger.broker_name() == "broker-a"

    now_s = time.monotonic() + ledger_topic.PLACE_KEPT_S
    monkeypatch.setattr("emberq.spark.ledger_topic.time.monotonic", lambda: now_s)

    assert await ledger.broker_name() == "broker-b"


async def test_where_the_ledger_is_is_read_again_behind_a_failure(ledger: Ledger) -> None:
    assert await ledger.broker_name() == "broker-a"
    ledger.place.broker, ledger.broker.is_away = "broker-b", True

    with pytest.raises(BrokerError):
        await ledger.outcome("query-0")

    assert await ledger.broker_name() == "broker-b"


async def test_name_servers_that_are_away_take_no_ledger_away(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_topic, "PLACE_KEPT_S", 0.0)
    assert await ledger.broker_name() == "broker-a"

    ledger.place.failure = NoNameServer("none answers")
    assert await ledger.broker_name() == "broker-a"

    ledger.place.failure = BrokerNotFound("broker-a has it, and is away")
    with pytest.raises(BrokerNotFound):
        await ledger.broker_name()
