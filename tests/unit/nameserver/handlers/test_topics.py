import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode
from emberq.testing.local_nameserver import Broker
from tests.unit.nameserver.serving import Serving

BROKER = Broker()
FLAGGED = [TopicConfig(name=f"U{flag}", system_flag=flag) for flag in range(4)]
LISTS_SWITCHED_TOGETHER = [
    RequestCode.GET_TOPICS_BY_CLUSTER,
    RequestCode.GET_UNIT_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
]


@pytest.fixture
async def serving(tmp_path: Path) -> Serving:
    serving = Serving(tmp_path)
    await serving.register(BROKER, *FLAGGED)
    other = replace(BROKER, name="broker-b", cluster="C2", address="10.1.1.9:1")
    await serving.register(other, TopicConfig(name="V1"), TopicConfig(name="V2"))
    return serving


async def names(serving: Serving, code: int, **fields: str) -> list[str]:
    response = await serving.call(code, fields)
    return sorted(json.loads(response.body)["topicList"])


async def test_topics_are_listed_by_cluster_and_by_flag(serving: Serving) -> None:
    assert await names(serving, 206) == ["U0", "U1", "U2", "U3", "V1", "V2"]
    assert await names(serving, 224, cluster="C2") == ["V1", "V2"]
    assert await names(serving, 224, cluster="nowhere") == []
    assert await names(serving, 224) == []
    assert await names(serving, 311) == ["U1", "U3"]
    assert await names(serving, 312) == ["U2", "U3"]
    assert await names(serving, 313) == ["U2"]


async def test_system_topics_are_clusters_and_brokers_and_some_address(serving: Serving) -> None:
    response = await serving.call(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)

    body = json.loads(response.body)
    assert sorted(body["topicList"]) == ["C1", "C2", "broker-a", "broker-b"]
    assert body["brokerAddr"] in ("10.1.1.7:10911", "10.1.1.9:1")


async def test_clusters_are_told_in_the_dialect(serving: Serving) -> None:
    response = await serving.call(RequestCode.GET_BROKER_CLUSTER_INFO)

    assert response.body == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.1.1.7:10911"},'
        b'"brokerName":"broker-a","cluster":"C1","enableActingMaster":false},'
        b'"broker-b":{"brokerAddrs":{0:"10.1.1.9:1"},"brokerName":"broker-b","cluster":"C2",'
        b'"enableActingMaster":false}},"clusterAddrTable":{"C1":["broker-a"],"C2":["broker-b"]}}'
    )


async def test_lists_can_be_switched_off(serving: Serving) -> None:
    await serving.settings.update({"enableTopicList": "false"})
    for code in LISTS_SWITCHED_TOGETHER:
        response = await serving.call(code, {"cluster": "C1"})
        assert (response.code, response.remark) == (1, "disable")
    assert (await serving.call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == 0

    await serving.settings.update({"enableAllTopicList": "false"})
    response = await serving.call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert (response.code, response.remark) == (1, "disable")
    assert (await serving.call(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)).code == 0


async def test_permissions_are_changed_and_topics_counted(serving: Serving) -> None:
    wiped = await serving.call(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert wiped.fields == {"wipeTopicCount": "4"}
    route = await serving.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "U1"})
    assert b'"perm":4' in route.body

    added = await serving.call(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert added.fields == {"addTopicCount": "4"}
    route = await serving.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "U1"})
    assert b'"perm":6' in route.body

    nobody = await serving.call(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
    assert nobody.fields == {"wipeTopicCount": "0"}


async def test_a_deletion_always_succeeds(serving: Serving) -> None:
    delete = RequestCode.DELETE_TOPIC_IN_NAMESRV
    for fields in (
        {"topic": "U0"},
        {"topic": "U1", "clusterName": "C1"},
        {"topic": "U2", "clusterName": "C2"},
        {"topic": "nowhere"},
        {},
    ):
        assert (await serving.call(delete, fields)).code == 0

    assert await names(serving, 206) == ["U2", "U3", "V1", "V2"]
