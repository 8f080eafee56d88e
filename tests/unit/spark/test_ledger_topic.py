"""The ledger in its topic: where it is believed to be, and what is read of it."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import Struct

from emberq.client.aio.at_hand import QUERY_COUNT
from emberq.client.core.message import Message
from emberq.errors import BrokerError, BrokerNotFound, ClientError, NoNameServer
from emberq.model.queue import MessageQueue
from emberq.spark import ledger_topic
from emberq.spark.batch_ledger import AbortDecision, CommitDecision, encode_decision
from emberq.spark.ledger_topic import LedgerTopic
from emberq.spark.sink_options import parse_sink

OPTIONS = parse_sink({"nameServer": "here:9876", "retries": "0", "brokerWaitMs": "0"})


class Stored(Struct, frozen=True):
    """A message as it is found."""

    body: bytes
    stored_at_ms: int
    queue_offset: int
    key: str
    tags: str
    properties: Mapping[str, str]
    broker: str


class Broker:
    """A producer's view of it: messages of one key, found by time, the newest first."""

    def __init__(self) -> None:
        self.client = Mock()
        self.client.wrap = str
        self.messages: list[Stored] = []
        self.is_away = False
        self.copies = 1  # of what is sent: answers may be lost
        self.on_send: Callable[[], None] = lambda: None

    def store(
        self,
        body: bytes,
        stored_at_ms: int,
        *,
        key: str = "query-0",
        tags: str = "",
        properties: Mapping[str, str] | None = None,
        broker: str = "",
    ) -> None:
        self.messages.append(
            Stored(
                *(body, stored_at_ms, len(self.messages), key, tags, properties or {}, broker),
            )
        )

    async def send(self, message: Message, *, queue: MessageQueue, **how: Any) -> Any:
        at_ms = round(time.time() * 1000)
        for _ in range(self.copies):
            self.store(
                message.body,
                at_ms,
                key=str(message.keys),
                tags=message.tags or "",
                properties=message.properties,
                broker=queue.broker_name,
            )
        self.on_send()
        return Mock(status="SEND_OK")

    async def query_messages(
        self, topic: str, key: str, *, end: datetime | None = None, **how: Any
    ) -> list[Any]:
        if self.is_away:
            raise BrokerError(1, "no", "broker-a")
        end_ms = 1 << 62 if end is None else round(end.timestamp() * 1000)
        # The index knows seconds.
        return [
            each
            for each in self.messages
            if each.key == key and each.stored_at_ms // 1000 * 1000 <= end_ms
        ][-QUERY_COUNT:]


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


async def test_what_brokers_do_not_tell_is_not_taken_for_nothing(ledger: Ledger) -> None:
    await ledger.ready(is_new_writer=False)
    for number in range(QUERY_COUNT + 5):
        decision = AbortDecision(id=str(number), writes=(str(number),))
        ledger.broker.store(encode_decision(decision), 1_700_000_000_000)

    with pytest.raises(ClientError, match=r"has more than 32 messages with the key query-0 within"):
        await ledger.outcome("query-0")


async def test_who_has_claimed_a_batch_is_known_however_much_was_signed_since(
    ledger: Ledger,
) -> None:
    await ledger.ready(is_new_writer=False)
    begin_ms = round(time.time() * 1000) - 1_400_000
    commit = CommitDecision(id="x", writes=("w",), parts=2)
    ledger.broker.store(encode_decision(commit), begin_ms, key="query-0")
    done = f"query-0-{commit.id}-done"
    ledger.broker.store(b"0", begin_ms + 200_000, key=done, tags="claim")
    for number in range(QUERY_COUNT + 8):
        ledger.broker.store(b"0", begin_ms + 200_000 + 30_000 * number, key=done, tags="done")

    assert not await ledger.resume("query-0", commit, 0, 120.0)


@pytest.mark.parametrize("copies", [1, 2])
async def test_a_claim_counts_however_often_it_is_there(ledger: Ledger, copies: int) -> None:
    await ledger.ready(is_new_writer=False)
    commit = CommitDecision(id="x", writes=("w",), parts=2)
    ledger.broker.store(encode_decision(commit), 1_700_000_000_000, key="query-0")
    ledger.broker.copies = copies

    assert await ledger.claim("query-0", commit, 0, 120.0)
    assert not await ledger.claim("query-0", commit, 0, 120.0)


async def test_a_commit_is_on_one_broker_wherever_the_ledger_is_meanwhile(ledger: Ledger) -> None:
    await ledger.ready(is_new_writer=False)

    def moved() -> None:
        ledger._queue = MessageQueue("broker-b", 0, "ledger")

    ledger.broker.on_send = moved
    await ledger.commit("query-0", ["w"], [{}, {}], {})

    assert {message.broker for message in ledger.broker.messages} == {"broker-a"}


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
