"""Messages that consumers give back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from emberq.broker.handlers.send_back import SendBackHandler
from emberq.errors import RequestRejected
from emberq.model.group import GroupConfig
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer, new_request
from emberq.record.properties import decode_properties
from emberq.record.record import Record
from emberq.remoting.connection import Connection
from emberq.store.admission import Obstacle
from tests.support.stores import read_all
from tests.unit.broker.sending import BROKER_IP, Sending, sending

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


class GivingBack:
    def __init__(self, broker: Sending) -> None:
        self.broker = broker
        self.handler = SendBackHandler(
            settings=broker.settings,
            topics=broker.topics,
            groups=broker.groups,
            store=broker.store,
            appender=broker.appender,
            broker_ip=BROKER_IP,
            statistics=broker.statistics,
        )
        self.handler.add_to(broker.registry)
        sent = broker.send(properties={"TAGS": "a", "UNIQ_KEY": "U"}, system_flag=1, flag=9)
        self.original = broker.record_of(sent)
        broker.statistics.puts.clear()

    async def give_back(
        self, offset: int | None = None, level: int = 0, version: int = 513, **fields: str
    ) -> Command:
        values = {
            "offset": str(self.original.log_offset if offset is None else offset),
            "group": "G",
            "delayLevel": str(level),
            "originTopic": "Orders",
            **fields,
        }
        command = new_request(RequestCode.CONSUMER_SEND_MSG_BACK, values, version=version)
        entry = self.broker.registry.get(command.code)
        assert entry is not None
        try:
            response = await entry.handle(command, cast(Connection, self.broker.peer))
        except RequestRejected as error:
            return answer(command, error.code, error.remark, error.fields)
        return cast(Command, response)

    def waiting(self, level: int) -> list[Record]:
        return read_all(self.broker.store, "SCHEDULE_TOPIC_XXXX", level - 1)

    def dead_letters(self) -> list[Record]:
        return read_all(self.broker.store, "%DLQ%G", 0)


@pytest.fixture
def back(tmp_path: Path) -> Iterator[GivingBack]:
    with sending(tmp_path) as broker:
        yield GivingBack(broker)


async def test_a_copy_waits_for_its_group(back: GivingBack) -> None:
    response = await back.give_back()

    assert (response.code, response.remark, response.fields) == (0, None, None)
    [copy] = back.waiting(3)
    original = back.original
    assert (copy.body, copy.flag, copy.system_flag) == (b"hello", 9, 1)
    assert (copy.born_at_ms, copy.born_host) == (original.born_at_ms, original.born_host)
    assert copy.reconsume_times == 1
    assert decode_properties(copy.properties) == {
        **decode_properties(original.properties),
        "DELAY": "3",
        "ORIGIN_MESSAGE_ID": f"0A01020300002A9F{original.log_offset:016X}",
        "REAL_QID": "0",
        "REAL_TOPIC": "%RETRY%G",
        "RETRY_TOPIC": "Orders",
        "WAIT": "false",
    }
    topic = back.broker.topics.get("%RETRY%G")
    assert topic is not None
    assert (topic.write_queue_count, topic.permission, topic.system_flag) == (1, 6, 0)


async def test_the_second_time_its_origin_stays(back: GivingBack) -> None:
    await back.give_back()
    [first] = back.waiting(3)

    await back.give_back(first.log_offset)

    [second] = back.waiting(4)
    assert second.reconsume_times == 2
    properties = decode_properties(second.properties)
    assert properties["ORIGIN_MESSAGE_ID"].endswith(f"{back.original.log_offset:016X}")
    assert properties["RETRY_TOPIC"] == "Orders"


async def test_a_level_that_is_asked_for_is_taken_or_lowered(back: GivingBack) -> None:
    await back.give_back(level=1)
    await back.give_back(level=99)

    assert len(back.waiting(1)) == len(back.waiting(18)) == 1


@pytest.mark.parametrize("fields", [{"maxReconsumeTimes": "0"}, {"delayLevel": "-1"}])
async def test_a_message_that_is_given_up_is_a_dead_letter(
    back: GivingBack, fields: dict[str, str]
) -> None:
    assert (await back.give_back(**cast(Any, fields))).code == 0

    [dead] = back.dead_letters()
    assert decode_properties(dead.properties)["DELAY"] == "0"
    assert dead.reconsume_times == 1
    topic = back.broker.topics.get("%DLQ%G")
    assert topic is not None
    assert (topic.write_queue_count, topic.permission) == (1, 6)
    assert back.broker.statistics.puts == [], "as official brokers count"
    assert back.broker.statistics.send_backs == [("G", "Orders")]


async def test_the_group_says_how_often_to_old_clients(back: GivingBack) -> None:
    back.broker.groups.put(GroupConfig(name="G", retry_count_max=0))
    await back.give_back(maxReconsumeTimes="3", version=100)

    assert len(back.dead_letters()) == 1


async def test_send_backs_are_counted(back: GivingBack) -> None:
    await back.give_back()

    [copy] = back.waiting(3)
    assert back.broker.statistics.puts == [("SCHEDULE_TOPIC_XXXX", 2, 1, copy.size_bytes)]
    assert back.broker.statistics.send_backs == [("G", "Orders")]


async def test_an_unknown_group_is_refused(back: GivingBack) -> None:
    back.broker.configure(auto_create_subscription_group=False)

    response = await back.give_back()

    assert (response.code, response.fields) == (26, None)
    assert response.remark == f"subscription group not exist, G {FAQ}"


async def test_a_broker_that_takes_nothing_says_so(back: GivingBack) -> None:
    back.broker.configure(broker_permission=4)

    response = await back.give_back()

    assert response.code == 16
    assert response.remark == "the broker[10.1.2.3] sending message is forbidden"


async def test_a_group_without_retries_drops_the_message(back: GivingBack) -> None:
    back.broker.groups.put(GroupConfig(name="G", retry_queue_count=0))

    assert (await back.give_back()).code == 0
    assert back.broker.topics.get("%RETRY%G") is None


async def test_a_retry_topic_that_is_closed_is_refused(back: GivingBack) -> None:
    back.broker.topics.put(TopicConfig(name="%RETRY%G", permission=4))

    response = await back.give_back()

    assert (response.code, response.remark) == (
        16,
        "the topic[%RETRY%G] sending message is forbidden",
    )


async def test_unit_mode_marks_the_retry_topic(back: GivingBack) -> None:
    await back.give_back(unitMode="true")

    topic = back.broker.topics.get("%RETRY%G")
    assert topic is not None
    assert topic.system_flag == 2


@pytest.mark.parametrize("offset", [-5, 3, 1 << 40])
async def test_an_offset_without_a_message_is_an_error(back: GivingBack, offset: int) -> None:
    response = await back.give_back(offset)

    assert (response.code, response.remark) == (1, f"look message by offset failed, {offset}")


async def test_a_refused_put_is_named(back: GivingBack) -> None:
    back.broker.store._admission.hinder(Obstacle.DISK_FULL, "full")

    response = await back.give_back()

    assert (response.code, response.remark) == (1, "SERVICE_NOT_AVAILABLE")


async def test_while_the_disk_is_behind_it_is_refused_at_the_door(back: GivingBack) -> None:
    back.broker.store._admission.is_index_busy = True

    response = await back.give_back()

    assert response.code == 2
    assert response.remark is not None
    assert response.remark.startswith("[REJECTREQUEST]")


async def test_several_retry_queues_are_all_used(back: GivingBack) -> None:
    back.broker.groups.put(replace(GroupConfig(name="G"), retry_queue_count=3))
    for _ in range(60):
        await back.give_back(level=1)

    queues = {decode_properties(record.properties)["REAL_QID"] for record in back.waiting(1)}
    assert queues == {"0", "1", "2"}
