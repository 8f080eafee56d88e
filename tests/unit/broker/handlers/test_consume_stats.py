from pathlib import Path

import pytest

from emberq.broker.members import Client, Manner
from emberq.broker.statistics.cells import Window
from emberq.model.queue import MessageQueue
from emberq.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.statistics import (
    BrokerConsumeStats,
    ConsumeProgress,
    ConsumeStats,
    ConsumeTimeSpans,
)
from emberq.protocol.codes import RequestCode
from tests.unit.broker.administered import NOW_MS, Administered
from tests.unit.broker.peers import Peer

OF_GROUP = RequestCode.GET_CONSUME_STATS
OF_BROKER = RequestCode.GET_BROKER_CONSUME_STATS
TIME_SPANS = RequestCode.QUERY_CONSUME_TIME_SPAN
QUEUE_0 = MessageQueue("broker-a", 0, "T")
QUEUE_1 = MessageQueue("broker-a", 1, "T")


@pytest.fixture
async def broker(tmp_path: Path) -> Administered:
    broker = Administered(tmp_path)
    for name in ("T", "U"):
        broker.topics.put(TopicConfig(name=name, read_queue_count=2, write_queue_count=2))
    broker.store.times_ms = {("T", 0): [100, 200, 300, 400]}
    broker.groups.find("G")
    broker.offsets.committed = {("G", "T", 0): 2, ("G", "U", 0): 0}
    broker.offsets.next_pulls = {("G", "T", 0): 3}
    return broker


def online(broker: Administered, *topics: str) -> None:
    manner = Manner(
        ConsumeType.CONSUME_PASSIVELY,
        MessageModel.CLUSTERING,
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    )
    subscriptions = [Subscription(topic=topic, expression="*") for topic in topics]
    broker.consumers.register("G", Client(Peer(), "c", "JAVA", 513), manner, subscriptions, 0)


async def of_group(broker: Administered, **fields: object) -> ConsumeStats:
    answer = await broker.ask(OF_GROUP, **{"consumerGroup": "G", **fields})
    return decode_body(ConsumeStats, answer.body)


async def test_a_groups_progress_in_a_topic_is_told(broker: Administered) -> None:
    broker.statistics.count_get("G", "T", 0, 20, 100)
    broker.statistics.sample(Window.MINUTE, 0)

    stats = await of_group(broker, topic="T")

    assert stats.consume_tps == 2.0
    assert stats.queues == {
        QUEUE_0: ConsumeProgress(
            broker_offset=4, consumer_offset=2, pull_offset=3, last_consumed_at_ms=200
        ),
        QUEUE_1: ConsumeProgress(),
    }


async def test_the_keys_of_the_body_are_objects(broker: Administered) -> None:
    answer = await broker.ask(OF_GROUP, consumerGroup="G", topic="T")

    assert answer.body.startswith(
        b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:'
        b'{"brokerOffset":4,"consumerOffset":2,"lastTimestamp":200,"pullOffset":3},'
    )


async def test_without_a_topic_all_topics_with_offsets_are_told(broker: Administered) -> None:
    stats = await of_group(broker)
    assert {queue.topic for queue in stats.queues} == {"T", "U"}

    nobody = await of_group(broker, consumerGroup="nobody")
    assert nobody == ConsumeStats()


async def test_topics_that_an_online_group_left_are_passed_over(broker: Administered) -> None:
    online(broker, "U", "%RETRY%G")

    assert {queue.topic for queue in (await of_group(broker)).queues} == {"U"}
    assert (await of_group(broker, topic="T")).queues == {}
    named = await of_group(broker, topicList="T;nowhere")
    assert {queue.topic for queue in named.queues} == {"T"}


async def test_unknown_topics_have_no_progress(broker: Administered) -> None:
    assert await of_group(broker, topic="nowhere") == ConsumeStats()


async def test_all_groups_of_a_broker_are_told_with_their_lag(broker: Administered) -> None:
    answer = await broker.ask(OF_BROKER, isOrder="false")
    body = decode_body(BrokerConsumeStats, answer.body)

    assert body.broker_address == "10.1.1.7:10911"
    assert (body.total_lag, body.total_in_flight) == (2, 1)
    by_group = {name: stats for entry in body.groups for name, stats in entry.items()}
    assert set(by_group) == set(broker.groups.all())
    assert by_group["TOOLS_CONSUMER"] == []
    assert [next(iter(stats.queues)).topic for stats in by_group["G"]] == ["T", "U"]


async def test_only_ordered_topics_are_told_if_asked_so(broker: Administered) -> None:
    broker.topics.put(TopicConfig(name="U", write_queue_count=2, is_ordered=True))

    answer = await broker.ask(OF_BROKER, isOrder="true")
    body = decode_body(BrokerConsumeStats, answer.body)

    by_group = {name: stats for entry in body.groups for name, stats in entry.items()}
    assert [next(iter(stats.queues)).topic for stats in by_group["G"]] == ["U"]
    assert body.total_lag == 0


async def test_times_of_queues_are_told(broker: Administered) -> None:
    answer = await broker.ask(TIME_SPANS, topic="T", group="G")
    first, second = decode_body(ConsumeTimeSpans, answer.body).queues

    assert (first.oldest_at_ms, first.newest_at_ms, first.consumed_at_ms) == (100, 400, 200)
    assert first.delay_ms == NOW_MS - 300
    assert first.newest_at_text == "1970-01-01#00:00:00:400"
    assert second.queue == QUEUE_1
    assert (second.oldest_at_ms, second.newest_at_ms, second.consumed_at_ms) == (-1, -1, -1)
    assert second.delay_ms == 0


async def test_a_group_without_offsets_waits_for_the_oldest_message(broker: Administered) -> None:
    answer = await broker.ask(TIME_SPANS, topic="T", group="nobody")

    span = decode_body(ConsumeTimeSpans, answer.body).queues[0]
    assert (span.consumed_at_ms, span.delay_ms) == (100, NOW_MS - 100)


async def test_times_of_an_unknown_topic_are_not_told(broker: Administered) -> None:
    answer = await broker.ask(TIME_SPANS, topic="X", group="G")

    assert (answer.code, answer.remark) == (17, "topic[X] not exist")
