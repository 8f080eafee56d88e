"""Message trace, stored by EmberQ's broker."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emberq.client.aio import trace
from emberq.client.aio.producer import Producer
from emberq.client.aio.pull_consumer import PullConsumer
from emberq.client.aio.push_consumer import PushConsumer
from emberq.client.core.received import ReceivedMessage
from emberq.errors import DeadLetter
from emberq.model.system_topics import TRACE_TOPIC
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import answer
from emberq.record.properties import decode_properties
from emberq.testing.embedded import EmbeddedCluster as Cluster
from emberq.testing.embedded import cluster_on_this_loop as cluster
from tests.integration.client.scripted import broker, client_and_broker
from tests.integration.client.test_producer import stored
from tests.integration.client.test_transactions import Broker as HalfBroker
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path, traceTopicEnable="true") as started:
        yield started


def traced(running: Cluster, topic: str = TRACE_TOPIC) -> list[list[str]]:
    """All records of the trace, as fields."""
    texts = [bytes(record.body).decode() for record in stored(running, topic)]
    records = [record for text in texts for record in text.split("\x02") if record]
    return [record.split("\x01") for record in records]


async def test_sends_leave_a_trace_that_is_found_by_id_and_key(running: Cluster) -> None:
    async with Producer("writers", name_server=running.name_server, trace=True) as producer:
        result = await producer.send("orders", b"hello", tags="A", keys=["k1", "k2"])
        late = await producer.send("orders", b"later", delay=1)

    one, two = traced(running)
    assert [one[0], *one[2:8]] == [
        *("Pub", "DefaultRegion", "writers", "orders", result.message_id, "A", "k1 k2")
    ]
    assert one[9] == "5"
    assert one[11:] == ["0", result.offset_message_id, "true"]
    assert (two[5], two[11]) == (late.message_id, "3")
    [record] = stored(running, TRACE_TOPIC)
    keys = decode_properties(record.properties)["KEYS"].split()
    assert keys == [result.message_id, "k1", "k2", late.message_id]


async def test_batches_are_traced_with_all_their_ids(running: Cluster) -> None:
    async with Producer(
        "writers", name_server=running.name_server, trace=True, linger=0.01
    ) as producer:
        results = await asyncio.gather(*(producer.send("orders", b"x") for _ in range(3)))

    ids = [identifier for record in traced(running) for identifier in record[5].split(",")]
    assert sorted(ids) == sorted(result.message_id for result in results)


async def test_consumption_leaves_a_trace_of_success_and_failure(running: Cluster) -> None:
    consumer = PushConsumer(
        "readers",
        name_server=running.name_server,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        trace="own-trace",
    )
    seen: list[bytes] = []

    @consumer.subscribe("orders")
    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == b"bad":
            raise DeadLetter

    async with Producer("writers", name_server=running.name_server) as producer:
        good = await producer.send("orders", b"good", keys="k")
        bad = await producer.send("orders", b"bad")
        async with consumer:
            await until(lambda: len(seen) == 2)

    records = traced(running, "own-trace")
    before = {record[5]: record for record in records if record[0] == "SubBefore"}
    after = {record[2]: record for record in records if record[0] == "SubAfter"}
    assert set(before) == set(after) == {good.message_id, bad.message_id}
    assert before[good.message_id][3] == "readers"
    assert before[good.message_id][6:] == ["0", "k"]
    assert before[good.message_id][4] == after[good.message_id][1]
    assert after[good.message_id][4:7] == ["true", "k", "0"]
    assert after[bad.message_id][4:7] == ["false", "null", "4"]
    assert after[bad.message_id][8] == "readers"
    assert not traced(running)


async def test_brokers_that_switch_tracing_off_are_obeyed(tmp_path: Path) -> None:
    async with cluster(tmp_path, traceTopicEnable="true", traceOn="false") as running:
        async with Producer("writers", name_server=running.name_server, trace=True) as producer:
            await producer.send("orders", b"x")

        assert not traced(running)


async def test_what_does_not_fit_is_dropped_and_counted(
    running: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace, "WAITING_MAX", 1)
    monkeypatch.setattr(trace, "FLUSH_INTERVAL_S", 60.0)
    async with Producer("writers", name_server=running.name_server, trace=True) as producer:
        for _ in range(3):
            await producer.send("orders", b"x")

    assert len(traced(running)) == 1
    assert "trace_incomplete group=writers dropped=2" in caplog.text


async def test_a_trace_that_cannot_be_sent_disturbs_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers = broker()
    handlers[RequestCode.SEND_MESSAGE_V2] = lambda command, _: answer(
        command, fields={"msgId": "0A" * 16, "queueId": "0", "queueOffset": "5"}
    )
    async with (
        client_and_broker(handlers) as (client, _),
        Producer("writers", client=client, trace=True) as producer,
    ):
        await producer.send("orders", b"x")

    assert "trace_unsent topic=RMQ_SYS_TRACE_TOPIC" in caplog.text
    assert "dropped=1" in caplog.text


async def test_a_pull_consumer_traces_what_it_has_finished(running: Cluster) -> None:
    async with (
        Producer("writers", name_server=running.name_server) as producer,
        PullConsumer(
            "pullers",
            name_server=running.name_server,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            trace=True,
        ) as consumer,
    ):
        result = await producer.send("orders", b"first", keys="k", ordering_key="one queue")
        await producer.send("orders", b"second", ordering_key="one queue")
        await consumer.subscribe("orders")
        [first] = await consumer.poll(1, timeout=15)
        assert not traced(running)
        [second] = await consumer.poll(1, timeout=15)

        await until(lambda: traced(running))

    assert (first.body, second.body) == (b"first", b"second")
    before, after = traced(running)[:2]
    assert [before[0], before[3], before[5], before[7]] == [
        *("SubBefore", "pullers", result.message_id, "k")
    ]
    assert (after[2], after[4], after[6]) == (result.message_id, "true", "0")


async def test_ends_of_transactions_leave_a_trace() -> None:
    server = HalfBroker()
    handlers = server.handlers()
    async with (
        client_and_broker(handlers) as (client, master),
        Producer("payers", client=client, trace="orders", check=lambda message: False) as producer,
    ):
        async with producer.transaction() as transaction:
            result = await transaction.send("orders", b"paid", tags="A", keys="order-1")
        await until(lambda: master.of(RequestCode.END_TRANSACTION))
        server.ask("0A" * 16)
        await until(lambda: len(master.of(RequestCode.END_TRANSACTION)) == 2)

    bodies = [request.body.decode() for request in master.of(RequestCode.SEND_MESSAGE_V2)]
    records = [record.split("\x01") for body in bodies for record in body.split("\x02")]
    one, two = (record for record in records if record[0] == "EndTransaction")
    assert one[2:5] == ["DefaultRegion", "payers", "orders"]
    assert one[5:] == [
        *(result.message_id, "A", "order-1", master.address, "2", "T-1", "COMMIT_MESSAGE", "false")
    ]
    assert (two[5], two[11:]) == ("0A" * 16, ["ROLLBACK_MESSAGE", "true"])
