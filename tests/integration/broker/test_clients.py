"""Clients come and go over real connections, and those who stay hear of it."""

import asyncio
import json
from pathlib import Path

import pytest

from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.testing.local_nameserver import run_name_server
from tests.integration.broker.running import RawClient, broker, clients
from tests.support.waiting import until

pytestmark = pytest.mark.integration

NOTICE = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


async def notice(client: RawClient) -> str:
    command = await client.next_push()
    assert (command.code, command.is_oneway) == (NOTICE, True)
    return (command.fields or {})["consumerGroup"]


async def test_members_hear_when_one_joins_leaves_and_is_cut_off(tmp_path: Path) -> None:
    async with (
        broker(tmp_path) as running,
        clients(running, "a", "b", "c") as (a, b, c),
    ):
        await a.beat("G", "T")
        assert await a.members("G") == ["a"]  # known before its heartbeat is answered
        assert await notice(a) == "G"

        for joining, known in ((b, [a]), (c, [a, b])):
            await joining.beat("G", "T")
            for member in (joining, *known):
                assert await notice(member) == "G"
        assert await a.members("G") == ["a", "b", "c"]

        fields = {"clientID": "b", "consumerGroup": "G"}
        assert (await b.ask(RequestCode.UNREGISTER_CLIENT, fields)).code == 0
        assert await notice(a) == await notice(c) == "G"

        c.peer.reset()
        assert await notice(a) == "G"
        assert await a.members("G") == ["a"]
        assert running.topics.get("%RETRY%G") is not None


async def test_a_silent_client_is_hung_up_on_and_others_hear_of_it(tmp_path: Path) -> None:
    async with (
        broker(tmp_path, channelExpiredTimeout="2500") as running,
        clients(running, "silent", "alive") as (silent, alive),
    ):
        await silent.beat("G", "T", producers=("P",))
        beats = asyncio.create_task(_beat_for_ever(alive))

        async def hung_up() -> None:
            while True:
                await silent.peer.receive()

        with pytest.raises(EOFError):
            await hung_up()
        await until(lambda: len(alive.pushed) == 2)  # it joined, the other one left
        beats.cancel()
        await asyncio.gather(beats, return_exceptions=True)

        group = running.consumers.get("G")
        assert group is not None
        assert group.client_ids() == ["alive"]
        assert running.producers.members("P") == []
        assert {command.code for command in alive.pushed} == {NOTICE}


async def _beat_for_ever(client: RawClient) -> None:
    while True:
        await client.beat("G", "T")
        await asyncio.sleep(0.02)


async def test_a_queue_is_locked_by_one_consumer_until_it_gives_it_back_or_its_time_is_over(
    tmp_path: Path,
) -> None:
    lock, unlock = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
    keys = {"rocketmq.broker.rebalance.lockMaxLiveTime": "2500"}
    async with (
        broker(tmp_path, **keys) as running,
        clients(running, "a", "b") as (a, b),
    ):
        assert await a.lock(lock, "G", 0, 1) == [0, 1]
        assert await b.lock(lock, "G", 1, 2) == [2]
        await a.lock(unlock, "G", 1)
        assert await b.lock(lock, "G", 1, 2) == [1, 2]

        a.peer.close()  # its lock stays for a while
        waited = 0
        while await b.lock(lock, "G", 0) != [0]:
            waited += 1
        assert waited > 0


async def test_a_tool_asks_a_consumer_through_the_broker(tmp_path: Path) -> None:
    async with (
        broker(tmp_path) as running,
        clients(running, "consumer", "tool") as (consumer, tool),
    ):
        await consumer.beat("G", "T")
        fields = {"consumerGroup": "G", "clientId": "consumer", "jstackEnable": "true"}

        asking = asyncio.create_task(tool.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields))
        call = await consumer.answer_next(0, b'{"jstack":"text"}')
        told: Command = await asking

        assert call.fields == fields
        assert (told.code, told.body) == (0, b'{"jstack":"text"}')


async def test_a_consumer_that_leaves_while_it_is_asked_is_an_error_for_the_tool_only(
    tmp_path: Path,
) -> None:
    async with (
        broker(tmp_path) as running,
        clients(running, "consumer", "tool") as (consumer, tool),
    ):
        await consumer.beat("G", "T")
        fields = {"consumerGroup": "G", "clientId": "consumer"}

        asking = asyncio.create_task(tool.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields))
        while (await consumer.next_push()).is_oneway:
            pass
        consumer.peer.reset()
        told = await asking

        assert told.code == 1
        assert await tool.members("G") == []


async def test_a_closed_connection_takes_its_producer_with_it(tmp_path: Path) -> None:
    async with broker(tmp_path) as running, clients(running, "a") as (a,):
        await a.beat("G", "T", producers=("P",))
        assert running.producers.by_client_id("a") is not None

        a.peer.close()
        await until(lambda: running.producers.by_client_id("a") is None)

        assert running.producers.groups() == []
        assert running.consumers.names() == []


async def test_a_groups_sql_filter_lives_as_long_as_its_members(tmp_path: Path) -> None:
    body = {
        "clientID": "a",
        "consumerDataSet": [
            {
                "groupName": "G",
                "subscriptionDataSet": [
                    {"topic": "T", "expressionType": "SQL92", "subString": "a > 5", "subVersion": 1}
                ],
            }
        ],
    }
    async with broker(tmp_path) as running, clients(running, "a") as (a,):
        await a.ask(RequestCode.HEART_BEAT, body=json.dumps(body).encode())
        kept = running.filters.get("T", "G")
        assert kept is not None
        assert not kept.is_dead

        a.peer.close()
        await until(lambda: kept.is_dead)

    assert b"a > 5" in (tmp_path / "store/config/consumerFilter.json").read_bytes()


async def test_a_consumer_may_let_the_broker_share_out_the_queues(tmp_path: Path) -> None:
    question = {
        "topic": "T",
        "consumerGroup": "G",
        "clientId": "b",
        "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    }
    with run_name_server(tmp_path / "names") as names:
        async with (
            broker(tmp_path, namesrvAddr=names.address) as running,
            clients(running, "a", "b") as (a, b),
        ):
            running.topics.put(TopicConfig(name="T", read_queue_count=3))
            await running.registration.settle()
            await a.beat("G", "T")
            await b.beat("G", "T")

            told = await b.ask(RequestCode.QUERY_ASSIGNMENT, body=json.dumps(question).encode())

    queue = {"brokerName": "brk", "queueId": 2, "topic": "T"}
    assert json.loads(told.body) == {
        "messageQueueAssignments": [{"messageQueue": queue, "mode": "PULL"}]
    }
