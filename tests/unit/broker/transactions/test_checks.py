"""Rounds of checks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emberq.broker.members import Client
from emberq.broker.producers import Producers
from emberq.broker.transactions.checks import TransactionChecks
from emberq.broker.transactions.half_ledger import HalfState
from emberq.model.system_topics import HALF_TOPIC, TRANSACTION_CHECK_MAX_TOPIC
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.record.decode import decode_record
from emberq.record.layout import PROPERTIES_SIZE_MAX
from emberq.record.properties import decode_properties
from emberq.store.admission import Obstacle
from emberq.store.results import PutStatus
from tests.support.stores import HOST, bodies_of, read_all
from tests.unit.broker.peers import Peer
from tests.unit.broker.sending import Sending, sending
from tests.unit.broker.transactions.halves import end, send_half


class Checking:
    def __init__(self, broker: Sending) -> None:
        self.broker = broker
        self.producers = Producers()
        self.peer = Peer()
        self.checks = TransactionChecks(
            broker.store,
            broker.halves,
            self.producers,
            broker.topics,
            config=lambda: broker.settings.config,
            kept_hours=lambda: 72,
            store_host=HOST,
            now_ms=broker.clock,
        )

    def join(self, group: str = "PG") -> None:
        client = Client(self.peer.connection, "c1", "JAVA", 513)
        self.producers.register(group, client, 0)

    async def round_after(self, time_ms: int = 7_000) -> list[Command]:
        """What the producer is asked in a round after some time."""
        self.broker.clock.now_ms += time_ms
        before = len(self.peer.sent)
        await self.checks.check()
        self.broker.halves.settle()
        return self.peer.sent[before:]

    def halves(self) -> list[dict[str, str]]:
        records = read_all(self.broker.store, HALF_TOPIC, 0)
        return [decode_properties(record.properties) for record in records]


@pytest.fixture
def checking(tmp_path: Path) -> Iterator[Checking]:
    with sending(tmp_path, mapped_file_size_commit_log=256 * 1024) as broker:
        yield Checking(broker)


async def test_a_producer_is_asked_about_a_copy(checking: Checking) -> None:
    checking.join()
    half = send_half(checking.broker, b"paid", UNIQ_KEY="U1")

    [question] = await checking.round_after()

    fields: Any = question.fields
    shown = decode_record(question.body)
    [_, copy] = read_all(checking.broker.store, HALF_TOPIC, 0)
    assert question.code == RequestCode.CHECK_TRANSACTION_STATE
    assert fields == {
        "bname": "broker-a",
        "commitLogOffset": str(copy.log_offset),
        "msgId": "U1",
        "offsetMsgId": f"{HOST.hex().upper()}{copy.log_offset:016X}",
        "topic": HALF_TOPIC,
        "tranStateTableOffset": "1",
        "transactionId": "U1",
    }
    assert (shown.topic, shown.queue_id, shown.body) == ("Orders", 2, b"paid")
    assert shown.queue_offset == 1
    assert decode_properties(shown.properties)["WAIT"] == "false"
    assert decode_properties(copy.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    assert copy.born_at_ms == half.born_at_ms


async def test_the_young_and_the_ended_are_left_alone(checking: Checking) -> None:
    checking.join()
    for is_commit in (True, False):
        end(checking.broker.halves, send_half(checking.broker), is_commit=is_commit)
    checking.broker.clock.now_ms += 7_000
    send_half(checking.broker)

    assert await checking.round_after(1_000) == []
    assert len(checking.halves()) == 3


async def test_a_message_is_asked_about_so_often_and_then_parked(checking: Checking) -> None:
    checking.broker.configure(transaction_check_max=2)
    checking.join()
    send_half(checking.broker, b"forgotten")

    asked = [len(await checking.round_after()) for _ in range(5)]

    assert asked == [1, 1, 0, 0, 0]
    [kept] = read_all(checking.broker.store, TRANSACTION_CHECK_MAX_TOPIC, 0)
    assert kept.body == b"forgotten"
    assert decode_properties(kept.properties)["TRANSACTION_CHECK_TIMES"] == "2"
    assert checking.broker.topics.get(TRANSACTION_CHECK_MAX_TOPIC) is not None
    assert checking.broker.counts.count("Orders") == 0


async def test_nothing_is_parked_while_the_store_takes_nothing(checking: Checking) -> None:
    checking.broker.configure(transaction_check_max=0)
    send_half(checking.broker)
    checking.broker.store._cleaner.stop()  # it would see that the disk has room
    checking.broker.store.admission.hinder(Obstacle.DISK_FULL, "full")

    await checking.round_after()
    assert checking.broker.halves.ledger.state(0) is HalfState.OPEN

    checking.broker.store.admission.clear(Obstacle.DISK_FULL)
    await checking.round_after()
    assert len(bodies_of(checking.broker.store, TRANSACTION_CHECK_MAX_TOPIC, 0)) == 1


async def test_a_body_limit_that_came_later_stops_no_check_and_no_commit(
    checking: Checking,
) -> None:
    checking.join()
    store = checking.broker.store
    large = send_half(checking.broker, b"x" * 5000, UNIQ_KEY="U0")
    send_half(checking.broker, b"small", UNIQ_KEY="U1")
    store.follow(replace(store.config, max_message_size=4000))

    questions = await checking.round_after(40_000)

    assert [(question.fields or {})["msgId"] for question in questions] == ["U0", "U1"]
    assert end(checking.broker.halves, large) is PutStatus.PUT_OK
    assert bodies_of(store, "Orders", 2) == [b"x" * 5000]


@pytest.mark.parametrize("is_immune", [False, True])
async def test_a_half_message_without_room_for_a_copys_properties_does_not_stop_the_others(
    checking: Checking, caplog: pytest.LogCaptureFixture, is_immune: bool
) -> None:
    checking.join()
    more: dict[str, Any] = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "100"} if is_immune else {}
    room = PROPERTIES_SIZE_MAX - len(send_half(checking.broker, big="x", **more).properties) + 1
    full = send_half(checking.broker, b"full", big="x" * room, **more)
    send_half(checking.broker, b"other", UNIQ_KEY="U1")

    questions = await checking.round_after(40_000)
    await checking.round_after(40_000)

    assert (questions[-1].fields or {})["msgId"] == "U1"
    told = [each.getMessage() for each in caplog.records if "uncopied" in each.getMessage()]
    assert len(told) == 1
    assert "group=PG" in told[0]
    assert end(checking.broker.halves, full) is PutStatus.PUT_OK
    assert bodies_of(checking.broker.store, "Orders", 2) == [b"full"]


async def test_a_question_that_has_room_for_nothing_more_is_asked_all_the_same(
    checking: Checking,
) -> None:
    checking.join()
    own = len("TRANSACTION_CHECK_TIMES\x011\x02")
    taken = len(send_half(checking.broker, big="x").properties) - 1 + own
    send_half(checking.broker, b"full", big="x" * (PROPERTIES_SIZE_MAX - taken))

    questions = await checking.round_after()

    assert [decode_record(question.body).body for question in questions] == [b"half", b"full"]


async def test_without_a_producer_it_is_tried_again(checking: Checking) -> None:
    send_half(checking.broker)

    await checking.round_after()
    checking.join()
    [question] = await checking.round_after()

    assert question.fields is not None
    assert question.fields["tranStateTableOffset"] == "2"


async def test_a_producer_that_is_gone_does_no_harm(checking: Checking) -> None:
    checking.join()
    checking.peer.close()
    send_half(checking.broker)
    send_half(checking.broker)

    assert await checking.round_after() == []
    assert len(checking.halves()) == 4


async def test_an_immune_message_is_put_back_without_being_counted(checking: Checking) -> None:
    checking.join()
    send_half(checking.broker, CHECK_IMMUNITY_TIME_IN_SECONDS="100")

    for _ in range(3):
        assert await checking.round_after(20_000) == []
    [question] = await checking.round_after(50_000)

    shown = decode_properties(decode_record(question.body).properties)
    copies = checking.halves()
    assert [copy.get("TRAN_PREPARED_QUEUE_OFFSET") for copy in copies] == [None, *["0"] * 4]
    assert [copy.get("TRANSACTION_CHECK_TIMES") for copy in copies] == [*[None] * 4, "1"]
    assert shown["TRAN_PREPARED_QUEUE_OFFSET"] == "0"


async def test_an_immune_message_that_was_ended_is_not_put_back(checking: Checking) -> None:
    half = send_half(checking.broker, CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    await checking.round_after(10_000)
    checking.broker.halves.ledger._copies.clear()  # as after a restart
    end(checking.broker.halves, half, is_commit=False)

    await checking.round_after(10_000)

    assert len(checking.halves()) == 2
    assert checking.broker.halves.ledger.base == 2


async def test_what_is_no_half_message_keeps_nothing_back(checking: Checking) -> None:
    checking.join()
    checking.broker.store.put(HALF_TOPIC, 0, b"stray", born_host=HOST)
    checking.broker.halves.ledger.stored(0)
    send_half(checking.broker)

    assert len(await checking.round_after()) == 1
