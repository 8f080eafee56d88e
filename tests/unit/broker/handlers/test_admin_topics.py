import json
from pathlib import Path

import pytest

from emberq.model.topic import TopicConfig, TopicFilterType
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from tests.unit.broker.administered import Administered

UPDATE = RequestCode.UPDATE_AND_CREATE_TOPIC
UPDATE_LIST = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
DELETE = RequestCode.DELETE_TOPIC_IN_BROKER
GET_ALL = RequestCode.GET_ALL_TOPIC_CONFIG


@pytest.fixture
async def broker(tmp_path: Path) -> Administered:
    return Administered(tmp_path)


async def update(broker: Administered, topic: str, **fields: object) -> Command:
    header: dict[str, object] = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 3,
        "writeQueueNums": 5,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }
    return await broker.ask(UPDATE, **{**header, **fields})


async def test_a_topic_is_created_and_on_disk_when_it_is_answered(broker: Administered) -> None:
    before = broker.topics.version.counter
    answer = await update(
        broker,
        "T1",
        perm=4,
        order="true",
        topicSysFlag=3,
        topicFilterType="MULTI_TAG",
        attributes="+message.type=FIFO",
    )

    assert (answer.code, answer.remark) == (0, "not set any response code")
    topic = TopicConfig(
        name="T1",
        read_queue_count=3,
        write_queue_count=5,
        permission=4,
        is_ordered=True,
        system_flag=3,
        filter_type=TopicFilterType.MULTI_TAG,
        attributes={"message.type": "FIFO"},
    )
    assert broker.topics.get("T1") == topic
    assert broker.topics.version.counter == before + 1
    assert broker.files.topics.load().topics["T1"] == topic


async def test_no_change_is_success_without_a_new_version(broker: Administered) -> None:
    await update(broker, "T1", attributes="+message.type=FIFO")
    version = broker.topics.version

    assert (await update(broker, "T1")).code == 0
    assert (await update(broker, "T1", attributes="+message.type=FIFO")).code == 0
    assert broker.topics.version == version


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("", "The specified topic is blank."),
        (
            "a b",
            "The specified topic: a b, contains illegal characters, "
            "allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("x" * 128, f"The specified topic: {'x' * 128}, is longer than topic max length: 127"),
        ("TBW102", "The topic[TBW102] is conflict with system topic."),
        ("C1", "The topic[C1] is conflict with system topic."),
        ("rmq_sys_x", "The topic[rmq_sys_x] is conflict with system topic."),
    ],
)
async def test_names_that_no_user_may_take_are_refused(
    broker: Administered, name: str, remark: str
) -> None:
    answer = await update(broker, name)
    assert (answer.code, answer.remark) == (29, remark)

    body = json.dumps({"topicConfigList": [{"topicName": "T1"}, {"topicName": name}]}).encode()
    answer = await broker.ask(UPDATE_LIST, body)
    assert (answer.code, answer.remark) == (29, remark)
    assert broker.topics.get("T1") is None


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topicFilterType": "X"}, 1, "topicFilterType = [X] value invalid"),
        ({"attributes": "+message.type=MIXED"}, 29, "MIXED message type is not supported."),
        ({"attributes": "+nokey=1"}, 1, "unsupported key: nokey"),
        ({"readQueueNums": 65_537}, 29, "a topic has at most 65536 queues"),
        ({"writeQueueNums": 2**31 - 1}, 29, "a topic has at most 65536 queues"),
    ],
)
async def test_settings_that_mean_nothing_are_refused(
    broker: Administered, fields: dict[str, object], code: int, remark: str
) -> None:
    answer = await update(broker, "T1", **fields)

    assert (answer.code, answer.remark) == (code, remark)
    assert broker.topics.get("T1") is None


async def test_a_list_of_topics_is_taken_as_a_whole(broker: Administered) -> None:
    good = {"topicName": "T1", "readQueueNums": 2, "writeQueueNums": 2}
    other = {"topicName": "T2", "attributes": {"+message.type": "FIFO"}}
    bad = {"topicName": "T3", "attributes": {"+nokey": "1"}}

    refused = await broker.ask(UPDATE_LIST, json.dumps({"topicConfigList": [good, bad]}).encode())
    assert (refused.code, broker.topics.get("T1")) == (1, None)
    taken = await broker.ask(UPDATE_LIST, json.dumps({"topicConfigList": [good, other]}).encode())
    assert taken.code == 0
    assert broker.topics.get("T1") == TopicConfig(
        name="T1", read_queue_count=2, write_queue_count=2
    )
    assert broker.topics.get("T2") == TopicConfig(name="T2", attributes={"message.type": "FIFO"})


async def test_a_topic_goes_with_its_offsets_queues_and_counters(broker: Administered) -> None:
    await update(broker, "T1")
    broker.topics.put(TopicConfig(name="%RETRY%G_T1"))
    broker.offsets.committed = {("G", "T1", 0): 5, ("G", "T2", 0): 5}
    broker.statistics.count_put("T1", 0, 1, 100)

    answer = await broker.ask(DELETE, topic="T1")

    assert (answer.code, answer.remark) == (0, None)
    assert broker.topics.get("T1") is None
    assert broker.topics.get("%RETRY%G_T1") is None
    assert broker.offsets.committed == {("G", "T2", 0): 5}
    assert broker.store.deleted == ["T1", "%RETRY%G_T1"]
    assert broker.statistics.view("TOPIC_PUT_NUMS", "T1") is None
    assert "T1" not in broker.files.topics.load().topics


async def test_counters_of_a_deleted_topic_stay_if_wanted(tmp_path: Path) -> None:
    broker = Administered(tmp_path, auto_delete_unused_stats=False)
    broker.statistics.count_put("T1", 0, 1, 100)

    await broker.ask(DELETE, topic="T1")

    assert broker.statistics.view("TOPIC_PUT_NUMS", "T1") is not None


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("", "The specified topic is blank."),
        ("TBW102", "The topic[TBW102] is conflict with system topic."),
    ],
)
async def test_some_topics_cannot_be_deleted(broker: Administered, name: str, remark: str) -> None:
    answer = await broker.ask(DELETE, topic=name)

    assert (answer.code, answer.remark) == (29, remark)
    assert broker.store.deleted == []


async def test_to_delete_what_is_not_there_is_success(broker: Administered) -> None:
    assert (await broker.ask(DELETE, topic="nowhere")).code == 0


async def test_all_topics_are_told_with_their_version(broker: Administered) -> None:
    answer = await broker.ask(GET_ALL)

    body = json.loads(answer.body)
    assert answer.fields == {"totalTopicNum": str(len(broker.topics.names()))}
    assert set(body["topicConfigTable"]) == set(broker.topics.names())
    assert body["dataVersion"]["counter"] == broker.topics.version.counter
    assert body["mappingDataVersion"]["counter"] == 0
    assert body["topicQueueMappingDetailMap"] == body["topicQueueMappingInfoMap"] == {}


async def test_topics_are_told_in_pieces(broker: Administered) -> None:
    version = encode_body(broker.topics.version).decode()
    names: list[str] = []
    while len(names) < len(broker.topics.names()):
        answer = await broker.ask(GET_ALL, topicSeq=len(names), maxTopicNum=4, dataVersion=version)
        names += json.loads(answer.body)["topicConfigTable"]
    assert names == sorted(broker.topics.names())

    await update(broker, "T1")
    anew = await broker.ask(GET_ALL, topicSeq=4, maxTopicNum=4, dataVersion=version)
    assert list(json.loads(anew.body)["topicConfigTable"]) == sorted(broker.topics.names())[:4]


async def test_one_topic_is_told(broker: Administered) -> None:
    await update(broker, "T1")

    answer = await broker.ask(RequestCode.GET_TOPIC_CONFIG, topic="T1", lo="true")
    assert answer.body == (
        b'{"attributes":{},"order":false,"perm":6,"readQueueNums":3,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"T1","topicSysFlag":0,"writeQueueNums":5}'
    )
    unknown = await broker.ask(RequestCode.GET_TOPIC_CONFIG, topic="T2")
    assert (unknown.code, unknown.remark) == (17, "No topic in this broker. topic: T2")


async def test_system_topics_are_those_of_every_broker_and_its_own(broker: Administered) -> None:
    await update(broker, "T1")

    answer = await broker.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    names = json.loads(answer.body)["topicList"]
    assert {"TBW102", "C1", "broker-a", "C1_REPLY_TOPIC", "rmq_sys_wheel_timer"} <= set(names)
    assert {"CHECKPOINT_TOPIC", "RMQ_SYS_TRACE_TOPIC"} <= set(names)
    assert "T1" not in names


async def test_a_table_that_cannot_be_stored_is_an_error(
    broker: Administered, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("not a folder")

    answer = await update(broker, "T1")
    assert answer.code == 1
    assert "could not be stored" in (answer.remark or "")
