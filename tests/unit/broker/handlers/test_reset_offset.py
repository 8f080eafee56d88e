from typing import Any

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.handlers.reset_offset import ResetOffsetHandlers
from emberq.broker.members import Client, Consumers, Manner
from emberq.broker.topics import Topics
from emberq.model.group import GroupConfig
from emberq.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, ask

MIN, MAX, BY_TIME = 10, 100, 50


class Store:
    def min_offset(self, topic: str, queue_id: int) -> int:
        return MIN

    def max_offset(self, topic: str, queue_id: int) -> int:
        return MAX + queue_id

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        return time_ms if time_ms < 1_000 else BY_TIME


class Offsets:
    def __init__(self) -> None:
        self.committed: dict[tuple[str, str, int], int] = {}
        self.resets: dict[tuple[str, str, int], int] = {}

    def query(self, group: str, topic: str, queue_id: int) -> int:
        return self.committed.get((group, topic, queue_id), -1)

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.resets[group, topic, queue_id] = offset


class Resetting:
    def __init__(self, **config: Any) -> None:
        settings = BrokerConfig(**config)
        topics = Topics(settings, now_ms=lambda: 0)
        topics.put(TopicConfig(name="T", read_queue_count=2, write_queue_count=2))
        topics.put(TopicConfig(name="none", read_queue_count=0, write_queue_count=0))
        groups = Groups(is_auto_created=lambda: True, now_ms=lambda: 0)
        groups.put(GroupConfig(name="G"))
        self.consumers = Consumers()
        self.offsets = Offsets()
        self.registry = HandlerRegistry()
        ResetOffsetHandlers(
            topics=topics,
            groups=groups,
            consumers=self.consumers,
            offsets=self.offsets,
            store=Store(),
            config=lambda: settings,
            broker_name="brk",
        ).add_to(self.registry)

    def come(self, version: int = 513) -> Peer:
        peer = Peer()
        manner = Manner(
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        )
        self.consumers.register("G", Client(peer, "c", "JAVA", version), manner, [], 0)
        return peer

    def commit(self, *offsets: int) -> None:
        for queue_id, offset in enumerate(offsets):
            self.offsets.committed["G", "T", queue_id] = offset

    async def reset(self, time_ms: int = 5_000, language: str = "JAVA", **fields: str) -> Command:
        asked = {"topic": "T", "group": "G", "timestamp": str(time_ms), "isForce": "true"}
        return await ask(
            self.registry,
            Peer(),
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            asked | fields,
            language=language,
        )


def table(*offsets: int) -> bytes:
    entries = ",".join(
        f'{{"brokerName":"brk","queueId":{queue_id},"topic":"T"}}:{offset}'
        for queue_id, offset in enumerate(offsets)
    )
    return f'{{"offsetTable":{{{entries}}}}}'.encode()


async def test_all_queues_are_reset_by_time_without_any_client() -> None:
    resetting = Resetting()

    answer = await resetting.reset()

    assert (answer.code, answer.body) == (0, table(BY_TIME, BY_TIME))
    assert resetting.offsets.resets == {("G", "T", 0): BY_TIME, ("G", "T", 1): BY_TIME}


async def test_a_negative_time_means_the_end() -> None:
    resetting = Resetting()

    answer = await resetting.reset(-1)

    assert answer.body == table(MAX, MAX + 1)


async def test_one_queue_is_reset_by_time_or_to_an_offset() -> None:
    resetting = Resetting()

    by_time = await resetting.reset(queueId="0")
    unset = await resetting.reset(queueId="0", offset="-1")
    by_offset = await resetting.reset(queueId="0", offset="77")

    assert by_time.body == unset.body == table(BY_TIME)
    assert by_offset.body == table(77)
    assert resetting.offsets.resets == {("G", "T", 0): 77}


async def test_an_offset_outside_the_queue_is_refused() -> None:
    resetting = Resetting()

    refused = [
        await resetting.reset(queueId="0", offset=str(offset)) for offset in (MIN - 1, MAX + 2)
    ]
    allowed = [await resetting.reset(queueId="0", offset=str(each)) for each in (MIN, MAX + 1)]

    assert [answer.code for answer in refused] == [1, 1]
    assert refused[0].remark == f"Target offset {MIN - 1} not in consume queue range [{MIN}-{MAX}]"
    assert [answer.code for answer in allowed] == [0, 0]


async def test_topic_and_group_must_exist_even_if_groups_are_made_by_themselves() -> None:
    resetting = Resetting()

    no_topic = await resetting.reset(topic="X")
    no_group = await resetting.reset(group="X")
    no_queue = await resetting.reset(topic="none")

    assert (no_topic.code, no_topic.remark) == (17, "Topic X does not exist")
    assert (no_group.code, no_group.remark) == (26, "Group X does not exist")
    assert (no_queue.code, no_queue.remark) == (1, "No queues to reset.")
    assert resetting.offsets.resets == {}


async def test_clients_are_told_where_the_broker_does_not_reset_by_itself() -> None:
    resetting = Resetting(use_server_side_reset_offset=False)
    resetting.commit(20, 80)
    peer = resetting.come()

    answer = await resetting.reset(isForce="false")

    assert (answer.code, answer.remark) == (0, "not set any response code")
    assert answer.body == table(20, BY_TIME)
    [push] = peer.sent
    assert push.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    assert push.is_oneway
    assert push.body == table(20, BY_TIME)
    assert push.fields == {
        "topic": "T",
        "group": "G",
        "timestamp": "5000",
        "isForce": "false",
        "queueId": "-1",
    }
    assert resetting.offsets.resets == {}


async def test_a_forced_push_may_go_forward_and_never_below_zero() -> None:
    resetting = Resetting(use_server_side_reset_offset=False)
    resetting.commit(20, 20)
    peer = resetting.come()

    to_end = await resetting.reset(-1)
    await resetting.reset(0)

    assert to_end.body == table(MAX, MAX + 1)
    assert peer.sent[1].body == table(0, 0)


async def test_callers_written_in_cpp_make_clients_get_a_list() -> None:
    resetting = Resetting(use_server_side_reset_offset=False)
    resetting.commit(20, 20)
    peer = resetting.come()

    answer = await resetting.reset(language="CPP")

    assert answer.body == table(BY_TIME, BY_TIME)
    assert peer.sent[0].body.startswith(
        b'{"offsetTable":[{"brokerName":"brk","offset":50,"queueId":0,"topic":"T"}'
    )


async def test_a_push_needs_offsets_and_clients_that_are_new_enough() -> None:
    resetting = Resetting(use_server_side_reset_offset=False)

    no_topic = await resetting.reset(topic="X")
    no_offsets = await resetting.reset()
    resetting.commit(1, 2)
    offline = await resetting.reset()
    resetting.come(version=5)
    too_old = await resetting.reset()

    assert (no_topic.code, no_topic.remark) == (
        17,
        "[reset-offset] reset offset failed, no topic in this broker. topic=X",
    )
    assert (no_offsets.code, no_offsets.remark) == (1, "THe consumer group <G> not exist")
    assert offline.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert offline.remark == (
        "Consumer not online, so can not reset offset, Group: G Topic: T Timestamp: 5000"
    )
    assert too_old.code == 1


async def test_a_client_that_cannot_be_told_does_not_keep_others_from_it() -> None:
    resetting = Resetting(use_server_side_reset_offset=False)
    resetting.commit(20, 20)
    gone, there = resetting.come(), resetting.come()
    gone.close()

    answer = await resetting.reset()

    assert answer.code == 0
    assert len(there.sent) == 1
