"""Transactions with a scripted broker, which does what no real one would."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import emberq
from emberq.client.aio import transactions
from emberq.client.aio.client import Client
from emberq.client.aio.producer import Producer
from emberq.client.aio.transactions import Check
from emberq.client.core.message import Message, SendResult
from emberq.client.core.outgoing import Compression
from emberq.client.core.received import ReceivedMessage
from emberq.errors import ClientClosed, ClientError, ConfigError, MessageRefused, SendFailed
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer, new_request
from emberq.record.encode import encode_record
from emberq.record.host import pack_host
from emberq.record.message_id import make_offset_id
from emberq.record.properties import encode_properties, parse_properties
from emberq.remoting.connection import Connection
from tests.integration.client.scripted import (
    Handlers,
    Scripted,
    broker,
    client_and_broker,
    name_server,
    route_to,
    scripted_server,
)
from tests.support.waiting import until

pytestmark = pytest.mark.integration

COMMIT, ROLLBACK, UNKNOWN = "8", "12", "0"
LOG_OFFSET = 4711


class Broker:
    """Stores half messages, takes their ends, and can ask for one."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)
        self.connection: Connection | None = None

    def handlers(self) -> Handlers:
        return {
            **broker(),
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.END_TRANSACTION: self._end,
        }

    def _send(self, command: Command, connection: Connection) -> Command:
        self.connection = connection
        fields = {
            "msgId": make_offset_id(pack_host("10.0.0.1", 10911), LOG_OFFSET),
            "queueId": "1",
            "queueOffset": "17",
            "transactionId": "T-1",
        }
        code = self._codes.pop(0) if self._codes else 0
        return answer(command, code, "a reason", fields)

    def _end(self, command: Command, connection: Connection) -> None:
        return None

    def ask(self, message_id: str, *, body: bytes = b"paid", group: str = "payers") -> None:
        """As 5.5.0 does: the header's topic is the half topic."""
        properties: dict[str, str | None] = {
            "PGROUP": group,
            "TRAN_MSG": "true",
            "UNIQ_KEY": message_id,
        }
        request = new_request(
            RequestCode.CHECK_TRANSACTION_STATE,
            {
                "tranStateTableOffset": "18",
                "commitLogOffset": "4712",
                "msgId": message_id,
                "transactionId": message_id,
                "offsetMsgId": make_offset_id(pack_host("10.0.0.1", 10911), 4712),
                "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
                "bname": "broker-0",
            },
            encode_record("orders", body, encode_properties(properties), queue_id=1),
        )
        assert self.connection is not None
        self.connection.send_oneway(request)


@asynccontextmanager
async def producing(
    server: Broker, check: Check | None = None
) -> AsyncIterator[tuple[Producer, Scripted]]:
    async with (
        client_and_broker(server.handlers()) as (client, master),
        Producer("payers", client=client, check=check, linger=0.001) as producer,
    ):
        yield producer, master


def ends(master: Scripted) -> list[dict[str, str]]:
    return [request.fields or {} for request in master.of(RequestCode.END_TRANSACTION)]


async def test_a_block_that_ends_well_commits_its_messages() -> None:
    async with producing(Broker()) as (producer, master):
        async with producer.transaction() as transaction:
            result = await transaction.send("orders", b"paid", tags="A")
            assert not ends(master)
        await until(lambda: ends(master))

    [sent] = master.of(RequestCode.SEND_MESSAGE_V2)
    fields = sent.fields or {}
    properties = parse_properties(fields["i"])
    assert (properties["TRAN_MSG"], properties["PGROUP"]) == ("true", "payers")
    assert int(fields["f"]) & 0xC == 4
    [end] = ends(master)
    assert end["commitOrRollback"] == COMMIT
    assert (end["tranStateTableOffset"], end["commitLogOffset"]) == ("17", str(LOG_OFFSET))
    assert (end["msgId"], end["transactionId"]) == (result.message_id, "T-1")
    assert (end["producerGroup"], end["topic"], end["bname"]) == ("payers", "orders", "broker-0")
    assert end["fromTransactionCheck"] == "false"
    assert master.of(RequestCode.END_TRANSACTION)[0].is_oneway


async def test_a_block_that_raises_rolls_all_back() -> None:
    async with producing(Broker()) as (producer, master):

        async def work() -> None:
            async with producer.transaction() as transaction:
                await transaction.send("orders", b"one")
                await transaction.send("orders", b"two")
                raise ValueError("no money")

        with pytest.raises(ValueError, match="no money"):
            await work()
        await until(lambda: len(ends(master)) == 2)

    assert [end["commitOrRollback"] for end in ends(master)] == [ROLLBACK] * 2


async def test_a_block_that_is_cancelled_rolls_back() -> None:
    async with producing(Broker()) as (producer, master):
        is_sent = asyncio.Event()

        async def work() -> None:
            async with producer.transaction() as transaction:
                await transaction.send("orders", b"one")
                is_sent.set()
                await asyncio.Event().wait()

        working = asyncio.create_task(work())
        await is_sent.wait()
        working.cancel()
        await asyncio.wait([working])
        await until(lambda: ends(master))

    assert [end["commitOrRollback"] for end in ends(master)] == [ROLLBACK]


async def test_a_transaction_ends_once() -> None:
    async with producing(Broker()) as (producer, master):
        async with producer.transaction() as transaction:
            await transaction.send("orders", b"one")
            await transaction.rollback()
            await transaction.commit()
            with pytest.raises(ClientClosed, match="has ended"):
                await transaction.send("orders", b"two")
        await until(lambda: ends(master))

    assert [end["commitOrRollback"] for end in ends(master)] == [ROLLBACK]


async def test_a_delay_is_refused() -> None:
    async with producing(Broker()) as (producer, master), producer.transaction() as transaction:
        with pytest.raises(MessageRefused, match="delayed"):
            await transaction.send(Message("orders", b"x", delay=1))

    assert not master.of(RequestCode.SEND_MESSAGE_V2)


async def test_compressed_half_messages_keep_both_marks() -> None:
    async with (
        client_and_broker(Broker().handlers()) as (client, master),
        Producer("payers", client=client, compression=Compression(above_bytes=10)) as producer,
        producer.transaction() as transaction,
    ):
        await transaction.send("orders", b"x" * 100)

    [sent] = master.of(RequestCode.SEND_MESSAGE_V2)
    assert int((sent.fields or {})["f"]) & 0xD == 5


async def test_a_message_that_is_stored_weakly_is_rolled_back_at_once() -> None:
    async with producing(Broker(ResponseCode.FLUSH_DISK_TIMEOUT)) as (producer, master):
        transaction = producer.transaction()
        with pytest.raises(SendFailed, match="FLUSH_DISK_TIMEOUT"):
            await transaction.send("orders", b"x")
        await until(lambda: ends(master))
        await transaction.commit()

    assert [end["commitOrRollback"] for end in ends(master)] == [ROLLBACK]


async def test_a_broker_that_missed_the_end_is_told_again_without_the_user() -> None:
    def never(message: ReceivedMessage) -> bool:
        raise AssertionError("the producer knows")

    server = Broker()
    async with producing(server, never) as (producer, master):
        async with producer.transaction() as transaction:
            result = await transaction.send("orders", b"paid")
            server.ask(result.message_id)
            await until(lambda: ends(master))
        await until(lambda: len(ends(master)) == 2)
        server.ask(result.message_id)
        await until(lambda: len(ends(master)) == 3)

    under_way, own, told = ends(master)
    assert (under_way["commitOrRollback"], under_way["fromTransactionCheck"]) == (UNKNOWN, "true")
    assert own["commitOrRollback"] == COMMIT
    assert (told["commitOrRollback"], told["fromTransactionCheck"]) == (COMMIT, "true")
    assert (told["tranStateTableOffset"], told["commitLogOffset"]) == ("18", "4712")
    assert (told["msgId"], told["topic"], told["bname"]) == (
        result.message_id,
        "orders",
        "broker-0",
    )


async def test_brokers_know_who_can_check_from_its_first_message_on() -> None:
    async with (
        scripted_server(Broker().handlers()) as master,
        scripted_server(name_server({"orders": route_to(master.address)})) as names,
        Producer("payers", name_server=names.address, check=lambda _: True) as producer,
    ):
        await producer.send("orders", b"x")
        await producer.send("orders", b"y")
        codes = [request.code for request in master.requests]

    sent = RequestCode.SEND_MESSAGE_V2
    assert codes == [RequestCode.HEART_BEAT, sent, sent]


@pytest.mark.parametrize("is_async", [True, False])
async def test_transactions_of_others_are_checked_by_the_user(is_async: bool) -> None:
    decisions = {b"yes": True, b"no": False, b"later": None}

    def plain(message: ReceivedMessage) -> bool | None:
        assert message.topic == "orders"
        return decisions[message.body]

    async def asynchronous(message: ReceivedMessage) -> bool | None:
        return plain(message)

    server = Broker()
    async with producing(server, asynchronous if is_async else plain) as (producer, master):
        await producer.send("orders", b"x")
        for body in (*decisions, b"trouble"):
            server.ask(body.decode(), body=body)
        await until(lambda: len(ends(master)) == 4)

    outcomes = {end["msgId"]: end["commitOrRollback"] for end in ends(master)}
    assert outcomes == {"yes": COMMIT, "no": ROLLBACK, "later": UNKNOWN, "trouble": UNKNOWN}
    remarks = [request.remark for request in master.of(RequestCode.END_TRANSACTION)]
    assert [remark for remark in remarks if remark] == ["KeyError: b'trouble'"]


async def test_without_a_check_unknown_transactions_are_left_to_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Broker()
    async with producing(server) as (producer, master):
        await producer.send("orders", b"x")
        server.ask("somebody-elses")
        await until(lambda: "transaction_check_unexpected" in caplog.text)

    assert not ends(master)


async def test_checks_above_the_limit_are_left_to_the_brokers_next_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transactions, "CHECKS_WAITING_MAX", 1)
    go = asyncio.Event()

    async def slow(message: ReceivedMessage) -> bool:
        await go.wait()
        return True

    server = Broker()
    async with producing(server, slow) as (producer, master):
        await producer.send("orders", b"x")
        server.ask("one")
        server.ask("two")
        await until(lambda: "transaction_check_dropped" in caplog.text)
        go.set()
        await until(lambda: ends(master))

    assert [end["msgId"] for end in ends(master)] == ["one"]


async def test_outcomes_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "OUTCOMES_MAX", 2)
    server = Broker()
    async with producing(server) as (producer, master):
        async with producer.transaction() as transaction:
            results = [await transaction.send("orders", b"x") for _ in range(3)]
        await until(lambda: len(ends(master)) == 3)
        server.ask(results[0].message_id)
        server.ask(results[2].message_id)
        await until(lambda: len(ends(master)) == 4)

    assert ends(master)[3]["msgId"] == results[2].message_id


async def test_an_end_that_cannot_be_sent_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Broker()
    async with scripted_server(server.handlers()) as master:
        routes = {"orders": route_to(master.address)}
        async with scripted_server(name_server(routes)) as names, Client(names.address) as client:
            producer = Producer("payers", client=client)
            await producer.start()
            async with producer.transaction() as transaction:
                await transaction.send("orders", b"x")
                await client.close()
            await producer.close()

    assert "transaction_end_unsent" in caplog.text


async def test_blocking_transactions_commit_and_roll_back() -> None:
    server = Broker()

    def fail(producer: emberq.Producer) -> None:
        with producer.transaction() as transaction:
            transaction.send("orders", b"two")
            raise ValueError("no money")

    def work(address: str) -> None:
        with emberq.Producer("payers", name_server=address) as producer:
            with producer.transaction() as transaction:
                transaction.send("orders", b"one")
            with pytest.raises(ValueError, match="no money"):
                fail(producer)

    async with (
        scripted_server(server.handlers()) as master,
        scripted_server(name_server({"orders": route_to(master.address)})) as names,
    ):
        await asyncio.to_thread(work, names.address)
        await until(lambda: len(ends(master)) == 2)

    assert [end["commitOrRollback"] for end in ends(master)] == [COMMIT, ROLLBACK]


# As a listener


@pytest.mark.parametrize(("outcome", "code"), [(True, COMMIT), (False, ROLLBACK)])
async def test_a_function_decides_how_its_message_ends(outcome: bool, code: str) -> None:
    async with producing(Broker(), check=lambda message: None) as (producer, master):

        def execute(result: SendResult) -> bool:
            assert result.queue_offset == 17
            return outcome

        result = await producer.send_in_transaction("orders", b"paid", execute=execute)
        await until(lambda: ends(master))

    [end] = ends(master)
    assert (end["commitOrRollback"], end["msgId"]) == (code, result.message_id)


async def test_what_a_function_does_not_know_is_left_to_the_check() -> None:
    server = Broker()
    asked: list[bytes] = []

    def check(message: ReceivedMessage) -> bool:
        asked.append(message.body)
        return True

    async def unsure(result: SendResult) -> None:
        return None

    async def failing(result: SendResult) -> bool:
        raise ValueError("the database is away")

    async with producing(server, check) as (producer, master):
        result = await producer.send_in_transaction("orders", b"paid", execute=unsure)
        with pytest.raises(ValueError, match="database"):
            await producer.send_in_transaction("orders", b"paid", execute=failing)
        with pytest.raises(ClientError, match="expected True, False or None"):
            await producer.send_in_transaction("orders", b"x", execute=lambda result: "yes")  # type: ignore[arg-type, return-value] # the mistake that is meant
        assert not ends(master)

        server.ask(result.message_id)
        await until(lambda: ends(master))

    assert asked == [b"paid"]
    [end] = ends(master)
    assert (end["commitOrRollback"], end["fromTransactionCheck"]) == (COMMIT, "true")


async def test_without_a_check_no_function_may_decide() -> None:
    async with producing(Broker()) as (producer, master):
        with pytest.raises(ConfigError, match="check="):
            await producer.send_in_transaction("orders", b"paid", execute=lambda result: True)

    assert not master.of(RequestCode.SEND_MESSAGE_V2)
