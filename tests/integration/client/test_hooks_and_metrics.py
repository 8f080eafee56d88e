"""Hooks around sends and handlers, and what Metrics are told."""

import contextvars
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from emberq.aio import (
    Client,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    Sending,
)
from emberq.errors import MessageRefused, SendFailed
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import answer, new_request
from emberq.record.properties import decode_properties
from emberq.testing.embedded import EmbeddedCluster as Cluster
from emberq.testing.embedded import cluster_on_this_loop as cluster
from tests.integration.client.scripted import broker, client_and_broker
from tests.integration.client.test_producer import stored
from tests.support.waiting import until

pytestmark = pytest.mark.integration

FIRST = "CONSUME_FROM_FIRST_OFFSET"
current = contextvars.ContextVar("current", default="nothing")


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as started:
        yield started


class Figures:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.labels: dict[str, set[str]] = {}
        self.times: dict[str, list[float]] = {}

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        outcome = labels.get("outcome")
        self.counts[f"{name} {outcome}" if outcome else name] += amount
        self.labels.setdefault(name, set()).add(",".join(labels))

    def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        self.times.setdefault(name, []).append(seconds)


# Hooks


async def test_a_hook_surrounds_every_kind_of_send_and_adds_properties(running: Cluster) -> None:
    seen: list[tuple[str, int, int]] = []

    @contextmanager
    def hook(sending: Sending) -> Iterator[None]:
        sending.properties["traceparent"] = "00-1"
        yield
        seen.append((sending.topic, len(sending.messages), len(sending.results)))

    async with Producer("writers", name_server=running.name_server, hooks=[hook]) as producer:
        await producer.send("orders", b"1", properties={"own": "x"})
        await producer.send_batch([Message("orders", b"2"), Message("orders", b"3")])
        await producer.send_oneway("orders", b"4")
        await until(lambda: len(stored(running, "orders")) == 4)

    assert seen == [("orders", 1, 1), ("orders", 2, 1), ("orders", 1, 0)]
    properties = [decode_properties(each.properties) for each in stored(running, "orders")]
    assert {each["traceparent"] for each in properties} == {"00-1"}
    assert sum(each.get("own") == "x" for each in properties) == 1


async def test_a_hook_may_forbid_a_send_and_those_before_it_are_left(running: Cluster) -> None:
    left: list[str] = []

    @contextmanager
    def first(sending: Sending) -> Iterator[None]:
        try:
            yield
        except MessageRefused as error:
            left.append(str(error))
            raise

    @contextmanager
    def forbidding(sending: Sending) -> Iterator[None]:
        if sending.topic == "secrets":
            raise MessageRefused("nobody sends to secrets")
        yield

    async with Producer(
        "writers", name_server=running.name_server, hooks=[first, forbidding]
    ) as producer:
        with pytest.raises(MessageRefused, match="nobody sends"):
            await producer.send("secrets", b"x")
        await producer.send("orders", b"x")

    assert left == ["nobody sends to secrets"]
    assert not stored(running, "secrets")


async def test_a_hook_that_fails_afterwards_changes_nothing(
    running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    @contextmanager
    def failing(sending: Sending) -> Iterator[None]:
        yield
        raise RuntimeError("no span")

    async with Producer("writers", name_server=running.name_server, hooks=[failing]) as producer:
        result = await producer.send("orders", b"x")

    assert result.queue.topic == "orders"
    assert "hook_failed" in caplog.text


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_hook_runs_where_the_handler_runs_and_sees_its_failure(
    running: Cluster, is_async: bool
) -> None:
    got: list[str] = []
    outcomes: list[str] = []

    @contextmanager
    def hook(messages: Sequence[ReceivedMessage]) -> Iterator[None]:
        token = current.set(messages[0].body.decode())
        try:
            yield
        except RetryLater:
            outcomes.append("retry")
            raise
        else:
            outcomes.append("ok")
        finally:
            current.reset(token)

    def broken(messages: Sequence[ReceivedMessage]) -> AbstractContextManager[None]:
        raise RuntimeError("cannot begin")

    consumer = PushConsumer(
        "readers", name_server=running.name_server, consume_from_where=FIRST, hooks=[broken, hook]
    )

    def handle(message: ReceivedMessage) -> None:
        got.append(current.get())
        if message.body == b"again" and not message.reconsume_times:
            raise RetryLater(delay_level=1)

    async def handle_async(message: ReceivedMessage) -> None:
        handle(message)

    consumer.add_handler("orders", handle_async if is_async else handle)
    async with Producer("writers", name_server=running.name_server) as producer:
        await producer.send("orders", b"fine")
        await producer.send("orders", b"again")
        async with consumer:
            await until(lambda: len(got) == 3)

    assert sorted(got) == ["again", "again", "fine"]
    assert sorted(outcomes) == ["ok", "ok", "retry"]


# Metrics


async def test_figures_of_sends_pulls_and_handling(running: Cluster) -> None:
    figures = Figures()
    seen: list[bytes] = []
    async with Client(running.name_server, metrics=figures) as client:
        consumer = PushConsumer("readers", client=client, consume_from_where=FIRST)

        @consumer.subscribe("orders")
        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)
            if message.body == b"bad" and not message.reconsume_times:
                raise RetryLater(delay_level=1)

        async with Producer("writers", client=client) as producer:
            await producer.send("orders", b"good")
            await producer.send_batch([Message("orders", b"bad"), Message("orders", b"good")])
            async with consumer:
                await until(lambda: len(seen) == 4)

    counts = figures.counts
    assert counts["sent_messages ok"] == 3
    assert counts["pulled_messages"] == 4
    assert counts["handled_messages ok"] == 3
    assert counts["handled_messages retry"] == 1
    assert counts["given_back_messages"] == 1
    assert counts["rebalances"] >= 1
    assert counts["pulls found"] >= 2
    assert set(figures.times) == {"send_seconds", "pull_seconds", "handle_seconds"}
    assert all(len(labels) == 1 for labels in figures.labels.values())


async def test_figures_of_failures_and_reconnects() -> None:
    figures = Figures()
    handlers = broker()
    handlers[RequestCode.SEND_MESSAGE_V2] = lambda command, _: answer(
        command, ResponseCode.SYSTEM_BUSY, "busy"
    )
    async with client_and_broker(handlers, metrics=figures) as (client, master):
        async with Producer("writers", client=client, retries=1) as producer:
            with pytest.raises(SendFailed):
                await producer.send("orders", b"x")
        client.connections.drop(master.address)
        await client.connections.call(
            master.address, new_request(RequestCode.UNREGISTER_CLIENT, {}), 3.0
        )

    assert figures.counts["sent_messages failed"] == 1
    assert figures.counts["send_retries"] == 1
    assert figures.counts["reconnects"] == 1


async def test_metrics_that_raise_disturb_nobody(
    running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
            raise RuntimeError("no registry")

        def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
            raise RuntimeError("no registry")

    async with (
        Client(running.name_server, metrics=Broken()) as client,
        Producer("writers", client=client) as producer,
    ):
        await producer.send("orders", b"x")
        await producer.send("orders", b"x")

    assert caplog.text.count("metrics_failed") == 1


# Lag


async def test_a_group_at_the_end_is_not_behind_and_one_at_the_start_is(running: Cluster) -> None:
    async with (
        Producer("writers", name_server=running.name_server) as producer,
        PullConsumer("pullers", name_server=running.name_server) as consumer,
    ):
        for number in range(5):
            await producer.send("orders", b"%d" % number, ordering_key="one queue")
        queue = (await producer.send("orders", b"5", ordering_key="one queue")).queue
        await consumer.assign([queue])

        await consumer.seek_to_end(queue)
        assert [lag.messages for lag in consumer.lag()] == [0]
        await consumer.seek_to_begin(queue)
        await until(lambda: [lag.messages for lag in consumer.lag()] == [6])
