"""What tools ask of a running broker: its tables, its figures, its configuration."""

import json
from pathlib import Path

import pytest

from emberq.model.queue import MessageQueue
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.statistics import BrokerConsumeStats, ConsumeStats, TopicStats
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.protocol.properties_text import read_properties
from tests.integration.broker.running import BROKER_NAME, RawClient, broker, clients

pytestmark = pytest.mark.integration

QUEUE = MessageQueue(BROKER_NAME, 0, "T")


def read(file: Path) -> bytes:
    return file.read_bytes()


async def create_topic(client: RawClient, topic: str, **fields: str) -> Command:
    header = {
        "topic": topic,
        "readQueueNums": "2",
        "writeQueueNums": "2",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }
    return await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**header, **fields})


async def send(client: RawClient, topic: str, count: int) -> None:
    fields = {
        **{"a": "producers", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0"},
        **{"g": "1700000000000", "h": "0", "i": "", "j": "0", "k": "false", "l": "0"},
    }
    for _ in range(count):
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"hello")).code == 0


async def pull(client: RawClient, group: str, topic: str, count: int) -> Command:
    fields = {
        **{"consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0"},
        **{"maxMsgNums": str(count), "sysFlag": "4", "commitOffset": "0", "subVersion": "0"},
        **{"suspendTimeoutMillis": "0", "subscription": "*"},
    }
    return await client.ask(RequestCode.PULL_MESSAGE, fields)


async def commit(client: RawClient, group: str, topic: str, offset: int) -> None:
    """Of a group that is there from now on."""
    await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0


async def test_topics_groups_and_settings_outlive_the_broker(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "tool") as (tool,):
        assert (await create_topic(tool, "T", attributes="+message.type=FIFO")).code == 0
        body = b'{"groupName":"G","retryMaxTimes":3}'
        created = await tool.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        assert created.code == 0
        assert (await tool.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false")).code == 0
    file = tmp_path / "store" / "config" / "broker.properties"
    assert b"traceOn=false\n" in read(file)

    async with broker(tmp_path) as running, clients(running, "tool") as (tool,):
        topic = await tool.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})
        assert json.loads(topic.body)["attributes"] == {"message.type": "FIFO"}
        group = await tool.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G"})
        assert json.loads(group.body)["retryMaxTimes"] == 3


async def test_progress_of_groups_is_told_from_sends_pulls_and_commits(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "tool") as (tool,):
        await create_topic(tool, "T")
        await send(tool, "T", 5)
        assert (await pull(tool, "G", "T", 3)).code == 0
        await commit(tool, "G", "T", 2)

        answer = await tool.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "G"})
        progress = decode_body(ConsumeStats, answer.body).queues[QUEUE]
        assert (progress.broker_offset, progress.consumer_offset, progress.pull_offset) == (5, 2, 3)
        answer = await tool.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
        of_broker = decode_body(BrokerConsumeStats, answer.body)
        assert (of_broker.total_lag, of_broker.total_in_flight) == (3, 1)
        answer = await tool.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
        bounds = decode_body(TopicStats, answer.body).queues[QUEUE]
        assert (bounds.offset_min, bounds.offset_max) == (0, 5)
        assert bounds.last_stored_at_ms >= progress.last_consumed_at_ms > 0
        view = {"statsName": "GROUP_GET_NUMS", "statsKey": "T@G"}
        assert (await tool.ask(RequestCode.VIEW_BROKER_STATS_DATA, view)).code == 0


async def test_the_broker_says_how_it_is_doing(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "tool") as (tool,):
        await send(tool, "T", 5)
        await pull(tool, "G", "T", 3)

        answer = await tool.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = json.loads(answer.body)["table"]
        assert table["putMessageTimesTotal"] == table["msgPutTotalTodayNow"] == "5"
        assert table["msgGetTotalTodayNow"] == "3"
        assert table["putMessageSizeTotal"] == table["commitLogMaxOffset"]
        assert table["commitLogMinOffset"] == "0"
        assert 0 < float(table["commitLogDiskRatio"]) <= 1
        answer = await tool.ask(RequestCode.GET_BROKER_CONFIG)
        config = read_properties(answer.body)
        assert config["listenPort"] == str(running.addresses.port)
        assert config["brokerName"] == BROKER_NAME


async def test_a_deleted_topic_leaves_nothing_behind(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "tool") as (tool,):
        await create_topic(tool, "T")
        await send(tool, "T", 5)
        await commit(tool, "G", "T", 2)

        deleted = await tool.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        assert deleted.code == 0
        assert (await tool.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})).code == 17
        assert not (tmp_path / "store" / "consumequeue" / "T").exists()
        for code in (306, 316, 329):
            assert (await tool.ask(code)).code == 0

        await create_topic(tool, "T")
        await send(tool, "T", 1)
        answer = await tool.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "G", "topic": "T"})
        progress = decode_body(ConsumeStats, answer.body).queues[QUEUE]
        assert (progress.broker_offset, progress.consumer_offset) == (1, 0)


async def test_queues_of_topics_that_no_table_knows_are_cleaned(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "tool") as (tool,):
        await send(tool, "T", 1)
        await send(tool, "U", 1)
        running.topics.remove("T")

        assert (await tool.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0

        assert running.store.max_offset("T", 0) == 0
        assert running.store.max_offset("U", 0) == 1


async def test_slaves_copy_tables(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "slave") as (slave,):
        await create_topic(slave, "T")
        await send(slave, "T", 1)
        await commit(slave, "G", "T", 1)

        offsets = await slave.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert b'"offsetTable":{"T@G":{0:1}}' in offsets.body
        delays = await slave.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert b'"offsetTable":{}' in delays.body
        status = await slave.ask(RequestCode.GET_BROKER_HA_STATUS)
        assert json.loads(status.body)["masterCommitLogMaxOffset"] == running.store.log.end
