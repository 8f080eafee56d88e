"""What our client does beside messages, on official brokers: light heartbeats, offsets, message
trace."""

import asyncio

import pytest

from emberq.aio import (
    Client,
    ClientSettings,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from emberq.client.aio.scans import Scans
from emberq.client.core.heartbeat_forms import HeartbeatForms
from emberq.protocol.bodies.heartbeat import Heartbeat
from tests.interop.harness.cluster import BROKER_NAME, Cluster
from tests.interop.harness.waiting import eventually
from tests.support.waiting import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

FIRST = "CONSUME_FROM_FIRST_OFFSET"
DEADLINE_S = 60.0
# Brokers before 5.0 answer no heartbeat with a word about its form.
LIGHT_SINCE = 5
GROUPS = 200


async def test_members_with_light_heartbeats_go_on_consuming(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = "EmberqLight", "emberq-light"
    forms: list[bool] = []
    form_for = HeartbeatForms.form_for

    def noted(self: HeartbeatForms, address: str, beat: Heartbeat) -> Heartbeat:
        form = form_for(self, address, beat)
        forms.append(form.is_without_subscriptions)
        return form

    monkeypatch.setattr(HeartbeatForms, "form_for", noted)
    settings = ClientSettings(heartbeat=0.2, is_heartbeat_v2=True)
    seen: list[bytes] = []
    async with (
        Client(cluster.emberq.address, settings=settings) as client,
        Producer("emberq-lighters", client=client) as producer,
        asyncio.timeout(DEADLINE_S),
    ):
        consumer = PushConsumer(group, client=client, consume_from_where=FIRST)

        @consumer.subscribe(topic, tags="wanted")
        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)

        await producer.send(topic, b"first", tags="wanted")
        async with consumer:
            await consumer.settled()
            forms.clear()
            await until(lambda: len(forms) >= 10)
            await producer.send(topic, b"unwanted", tags="other")
            await producer.send(topic, b"last", tags="wanted")
            await until(lambda: b"last" in seen)
            lines = await asyncio.to_thread(
                cluster.admin.run, "consumerConnection", "-n", cluster.emberq.address, "-g", group
            )

    assert set(seen) == {b"first", b"last"}
    assert any(topic in line and "wanted" in line for line in lines), lines
    is_light = int(cluster.line.server_version.split(".")[0]) >= LIGHT_SINCE
    assert (True in forms) == is_light


async def test_first_offsets_of_new_groups_are_all_kept(cluster: Cluster) -> None:
    """Told at once, one of four was lost in 1 to 4 of 100 groups on either line."""
    topic = "EmberqGroups"
    queues = [MessageQueue(BROKER_NAME, number, topic) for number in range(4)]
    offsets = {queue: 100 + queue.queue_id for queue in queues}
    async with (
        Client(cluster.emberq.address) as client,
        Producer("emberq-groups", client=client) as producer,
    ):
        await producer.create_topic(topic, queues=len(queues))
        scans = Scans(client)
        await scans.queues(topic)
        for number in range(GROUPS):
            group = f"emberq-new-{number}"
            await scans.commit(group, offsets)
            heads = await scans.heads(queues, group)
            assert {queue: head.committed for queue, head in heads.items()} == offsets, group


def test_official_tools_read_our_traces(own_cluster: Cluster) -> None:
    topic, trace_topic = "EmberqTraced", "EmberqTraceRecords"
    plain, paid = asyncio.run(_traced(own_cluster.emberq.address, topic, trace_topic))

    def way_of(message_id: str) -> list[str]:
        lines: list[str] = own_cluster.admin.run(
            *("queryMsgTraceById", "-n", own_cluster.emberq.address, "-i", message_id),
            *("-t", trace_topic),
        )
        return lines

    def is_whole(lines: list[str]) -> bool:
        text = "\n".join(lines)
        words = ("Pub", "emberq-traced-shop", "emberq-traced-pull", "success")
        return all(word in text for word in words)

    eventually(lambda: way_of(plain), is_whole, DEADLINE_S)
    # The record of the transaction's end stands among them and disturbs no reader.
    eventually(lambda: way_of(paid), is_whole, DEADLINE_S)


async def _traced(name_server: str, topic: str, trace_topic: str) -> tuple[str, str]:
    async with (
        Producer("emberq-traced-shop", name_server=name_server, trace=trace_topic) as producer,
        PullConsumer(
            "emberq-traced-pull",
            name_server=name_server,
            consume_from_where=FIRST,
            trace=trace_topic,
        ) as consumer,
        asyncio.timeout(DEADLINE_S),
    ):
        plain = await producer.send(topic, b"plain", keys="k-1")
        async with producer.transaction() as transaction:
            paid = await transaction.send(topic, b"paid", keys="k-2")
        await consumer.subscribe(topic)
        seen: set[str] = set()
        async for message in consumer:
            seen.add(message.message_id)
            if {plain.message_id, paid.message_id} <= seen:
                break
    return plain.message_id, paid.message_id
