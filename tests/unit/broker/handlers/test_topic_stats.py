from pathlib import Path

import pytest

from emberq.broker.statistics.cells import Window
from emberq.model.topic import QUEUE_COUNT_MAX, TopicConfig
from emberq.protocol.codes import RequestCode
from tests.unit.broker.administered import Administered


@pytest.fixture
async def broker(tmp_path: Path) -> Administered:
    broker = Administered(tmp_path)
    broker.topics.put(TopicConfig(name="T", read_queue_count=1, write_queue_count=2))
    broker.store.times_ms = {("T", 0): [100, 200]}
    return broker


async def test_every_queue_that_is_read_or_written_is_told(broker: Administered) -> None:
    broker.statistics.count_put("T", 0, 5, 500)
    broker.statistics.sample(Window.MINUTE, 0)

    answer = await broker.ask(RequestCode.GET_TOPIC_STATS_INFO, topic="T")

    assert answer.body == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:'
        b'{"lastUpdateTimestamp":200,"maxOffset":2,"minOffset":0},'
        b'{"brokerName":"broker-a","queueId":1,"topic":"T"}:'
        b'{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":0.5}'
    )


async def test_a_topic_of_absurd_size_is_told_up_to_a_limit(broker: Administered) -> None:
    broker.topics.put(TopicConfig(name="T", read_queue_count=2**31 - 1))

    answer = await broker.ask(RequestCode.GET_TOPIC_STATS_INFO, topic="T")

    assert answer.body.count(b"queueId") == QUEUE_COUNT_MAX


async def test_an_unknown_topic_has_no_figures(broker: Administered) -> None:
    answer = await broker.ask(RequestCode.GET_TOPIC_STATS_INFO, topic="X")

    assert (answer.code, answer.remark) == (17, "topic[X] not exist")


async def test_a_counter_is_viewed(broker: Administered) -> None:
    view = RequestCode.VIEW_BROKER_STATS_DATA
    broker.statistics.count_put("T", 0, 5, 500)

    known = await broker.ask(view, statsName="TOPIC_PUT_NUMS", statsKey="T")
    assert known.code == 0
    assert known.body.startswith(b'{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},"statsHour"')
    unknown = await broker.ask(view, statsName="TOPIC_PUT_NUMS", statsKey="X")
    assert (unknown.code, unknown.remark) == (1, "The stats <TOPIC_PUT_NUMS> <X> not exist")
