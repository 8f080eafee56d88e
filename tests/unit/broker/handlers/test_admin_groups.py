import json
from pathlib import Path

import pytest

from emberq.model.group import GroupConfig
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from tests.unit.broker.administered import Administered

UPDATE = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
UPDATE_LIST = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
GET = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
GET_ALL = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
FORBID = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
DELETE = RequestCode.DELETE_SUBSCRIPTIONGROUP


@pytest.fixture
async def broker(tmp_path: Path) -> Administered:
    return Administered(tmp_path)


async def update(broker: Administered, **group: object) -> Command:
    return await broker.ask(UPDATE, json.dumps(group).encode())


async def test_a_group_is_created_and_on_disk_when_it_is_answered(broker: Administered) -> None:
    answer = await update(broker, groupName="G", retryMaxTimes=3, consumeEnable=False)

    assert (answer.code, answer.remark) == (0, None)
    group = GroupConfig(name="G", retry_count_max=3, is_consume_enabled=False)
    assert broker.groups.get("G") == group
    assert broker.files.groups.load().groups["G"] == group


async def test_attributes_of_a_group_are_changed(broker: Administered) -> None:
    await update(broker, groupName="G", attributes={"+priority.factor": "50"})
    group = broker.groups.get("G")
    assert group is not None
    assert group.attributes == {"priority.factor": "50"}

    refused = await update(broker, groupName="G", attributes={"+priority.factor": "101"})
    assert (refused.code, refused.remark) == (1, "value is not in range(0, 100)")
    await update(broker, groupName="G", attributes={"-priority.factor": ""})
    assert broker.groups.get("G") == GroupConfig(name="G")


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("", "The specified group is blank."),
        (
            "a b",
            "The specified group: a b, contains illegal characters, "
            "allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("g" * 121, f"The specified group: {'g' * 121}, is longer than group max length: 120"),
    ],
)
async def test_bad_names_are_refused(broker: Administered, name: str, remark: str) -> None:
    answer = await update(broker, groupName=name)
    assert (answer.code, answer.remark) == (29, remark)

    body = json.dumps({"groupConfigList": [{"groupName": "H"}, {"groupName": name}]}).encode()
    answer = await broker.ask(UPDATE_LIST, body)
    assert (answer.code, answer.remark) == (29, remark)
    assert broker.groups.get("H") is None


async def test_a_group_cannot_ask_for_any_number_of_retry_queues(broker: Administered) -> None:
    answer = await update(broker, groupName="G", retryQueueNums=65_537)

    assert (answer.code, answer.remark) == (29, "a retry topic has at most 65536 queues")
    assert broker.groups.get("G") is None


async def test_several_groups_are_created_together(broker: Administered) -> None:
    body = b'{"groupConfigList":[{"groupName":"G"},{"groupName":"H","consumeEnable":false}]}'

    assert (await broker.ask(UPDATE_LIST, body)).code == 0
    assert broker.groups.get("G") == GroupConfig(name="G")
    assert broker.groups.get("H") == GroupConfig(name="H", is_consume_enabled=False)


async def test_to_ask_for_a_group_makes_it_where_that_is_allowed(tmp_path: Path) -> None:
    open_broker = Administered(tmp_path / "a")
    answer = await open_broker.ask(GET, group="G")
    assert answer.body == (
        b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
        b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
        b'"groupName":"G","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
        b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
        b'"whichBrokerWhenConsumeSlowly":1}'
    )

    strict_broker = Administered(tmp_path / "b", auto_create_subscription_group=False)
    answer = await strict_broker.ask(GET, group="G")
    assert (answer.code, answer.remark) == (26, "No group in this broker")


async def test_all_groups_are_told_with_what_is_forbidden(broker: Administered) -> None:
    await broker.ask(FORBID, group="G", topic="T", readable="false")

    answer = await broker.ask(GET_ALL)
    body = json.loads(answer.body)
    assert answer.fields == {"totalGroupNum": str(len(broker.groups.all()))}
    assert body["forbiddenTable"] == {"G": {"T": 4}}
    assert set(body["subscriptionGroupTable"]) == set(broker.groups.all())

    version = encode_body(broker.groups.version).decode()
    page = await broker.ask(GET_ALL, groupSeq=1, maxGroupNum=2, dataVersion=version)
    names = list(json.loads(page.body)["subscriptionGroupTable"])
    assert names == sorted(broker.groups.all())[1:3]


async def test_reading_is_forbidden_and_allowed(broker: Administered) -> None:
    asked = await broker.ask(FORBID, group="G", topic="T")
    assert (asked.code, asked.remark) == (0, "")
    assert asked.body == b'{"group":"G","readable":true,"topic":"T"}'

    forbidden = await broker.ask(FORBID, group="G", topic="T", readable="false")
    assert forbidden.body == b'{"group":"G","readable":false,"topic":"T"}'
    assert broker.files.groups.load().forbidden == {"G": {"T": 4}}
    allowed = await broker.ask(FORBID, group="G", topic="T", readable="true")
    assert allowed.body == b'{"group":"G","readable":true,"topic":"T"}'


@pytest.mark.parametrize(("group", "topic"), [("\ud800", "T"), ("G", "\ud800"), ("a b", "T")])
async def test_nothing_is_forbidden_to_what_cannot_be(
    broker: Administered, group: str, topic: str
) -> None:
    answer = await broker.ask(FORBID, group=group, topic=topic, readable="false")

    assert answer.code == 29
    assert (await update(broker, groupName="G")).code == 0
    assert broker.files.groups.load().forbidden == {}


@pytest.mark.parametrize(
    ("flags", "offsets_left"),
    [({}, 1), ({"removeOffset": "true"}, 0), ({"cleanOffset": "true"}, 0)],
)
async def test_a_group_goes_with_its_counters_and_if_wanted_its_offsets(
    broker: Administered, flags: dict[str, str], offsets_left: int
) -> None:
    await update(broker, groupName="G")
    broker.offsets.committed = {("G", "T", 0): 5}
    broker.statistics.count_get("G", "T", 0, 1, 100)

    answer = await broker.ask(DELETE, groupName="G", **flags)

    assert answer.code == 0
    assert broker.groups.get("G") is None
    assert "G" not in broker.files.groups.load().groups
    assert len(broker.offsets.committed) == offsets_left
    assert broker.statistics.view("GROUP_GET_NUMS", "T@G") is None


async def test_to_delete_what_is_not_there_is_success(broker: Administered) -> None:
    assert (await broker.ask(DELETE, groupName="nobody")).code == 0


async def test_a_table_that_cannot_be_stored_is_an_error(
    broker: Administered, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("not a folder")

    answer = await update(broker, groupName="G")
    assert answer.code == 1
    assert "could not be stored" in (answer.remark or "")
