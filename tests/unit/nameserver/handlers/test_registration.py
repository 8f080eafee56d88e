import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from emberq.errors import ProtocolError
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.testing.local_nameserver import Broker
from tests.unit.nameserver.serving import Peer, Serving

BROKER = Broker()
SLAVE = Broker(id=1, address="10.1.1.8:10911", ha_address="10.1.1.8:10912")
T1, T2 = TopicConfig(name="T1"), TopicConfig(name="T2")


async def test_a_slave_is_told_where_its_master_is(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    first = await serving.register(BROKER, T1, T2)
    second = await serving.register(SLAVE, T1, T2)

    assert (first.code, first.fields, first.body) == (0, {}, b"")
    assert second.fields == {"masterAddr": BROKER.address, "haServerAddr": BROKER.ha_address}


async def test_a_body_that_was_damaged_on_the_way_is_refused(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    response = await serving.register(BROKER, T1, T2, bodyCrc32="1")

    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    assert serving.table.brokers() == {}


async def test_a_first_registration_of_one_topic_is_refused(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    response = await serving.register(BROKER, T1)

    assert (response.code, response.remark) == (1, "register broker failed")
    assert serving.table.clusters() == {}


async def test_a_body_that_is_none_is_a_protocol_error(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    with pytest.raises(ProtocolError):
        await serving.call(RequestCode.REGISTER_BROKER, BROKER.fields(), b"garbage")

    assert serving.table.brokers() == {}


@pytest.mark.parametrize("missing", ["brokerName", "brokerAddr", "clusterName", "brokerId"])
@pytest.mark.parametrize("code", [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER])
async def test_a_broker_must_say_who_it_is(tmp_path: Path, missing: str, code: int) -> None:
    fields = {name: text for name, text in BROKER.fields().items() if name != missing}

    with pytest.raises(ProtocolError, match=f"{missing} is missing"):
        await Serving(tmp_path).call(code, fields)


async def test_brokers_get_the_order_topics_if_there_ever_was_one(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T1", "value": "broker-a:4"}
    await serving.call(RequestCode.PUT_KV_CONFIG, order)
    assert (await serving.register(BROKER, T1, T2)).body == b'{"table":{"T1":"broker-a:4"}}'

    await serving.call(RequestCode.DELETE_KV_CONFIG, order)
    assert (await serving.register(BROKER, T1, T2)).body == b'{"table":{}}'

    await serving.settings.update({"returnOrderTopicConfigToBroker": "false"})
    assert (await serving.register(BROKER, T1, T2)).body == b""


async def test_a_registration_right_after_an_unregistration_counts(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    await serving.register(BROKER, T1, T2)

    left = await serving.call(RequestCode.UNREGISTER_BROKER, BROKER.fields())
    await serving.register(replace(BROKER, address="10.1.1.9:1"), T1, T2)
    serving.departures.settle()

    assert left.code == 0
    assert serving.table.brokers()["broker-a"].addresses == {0: "10.1.1.9:1"}


async def test_too_many_departures_at_once_are_refused(tmp_path: Path) -> None:
    serving = Serving(tmp_path, un_register_broker_queue_capacity=1)
    await serving.call(RequestCode.UNREGISTER_BROKER, BROKER.fields())

    response = await serving.call(RequestCode.UNREGISTER_BROKER, BROKER.fields())

    assert (response.code, response.remark) == (1, "too many brokers are leaving, try again")


async def test_only_registered_connections_are_watched(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    peer = Peer()
    await serving.call(RequestCode.BROKER_HEARTBEAT, BROKER.fields(), peer=peer)
    assert peer.session is None

    await serving.register(BROKER, T1, T2, peer=peer)
    assert peer.session is serving.departures


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (b'{"counter":1}', "false"),
        (b'{"counter":1,"stateVersion":0,"timestamp":0}', "false"),
        (b'{"counter":2}', "true"),
        (b'{"counter":1,"stateVersion":5}', "true"),
        (b"", "true"),
    ],
)
async def test_a_data_version_is_compared_as_a_whole(
    tmp_path: Path, body: bytes, changed: str
) -> None:
    serving = Serving(tmp_path)
    await serving.register(BROKER, T1, T2, counter=1)

    response = await serving.call(RequestCode.QUERY_DATA_VERSION, BROKER.fields(), body)

    assert response.fields == {"changed": changed}
    assert response.body == b'{"counter":1,"stateVersion":0,"timestamp":0}'


async def test_the_data_version_of_a_stranger_has_changed(tmp_path: Path) -> None:
    response = await Serving(tmp_path).call(
        RequestCode.QUERY_DATA_VERSION, BROKER.fields(), b'{"counter":1}'
    )

    assert (response.fields, response.body) == ({"changed": "true"}, b"")


@pytest.mark.parametrize("code", [RequestCode.QUERY_DATA_VERSION, RequestCode.BROKER_HEARTBEAT])
async def test_questions_and_heartbeats_are_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    now_ms = 0
    monkeypatch.setattr("emberq.nameserver.server._now_ms", lambda: now_ms)
    serving = Serving(tmp_path)
    await serving.register(BROKER, T1, T2, heartbeatTimeoutMillis="1000")

    now_ms = 900
    await serving.call(code, BROKER.fields())

    assert serving.table.expired(1_900) == []
    assert len(serving.table.expired(1_901)) == 1


async def test_members_of_a_group_with_the_official_remark(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    await serving.register(BROKER, T1, T2)
    await serving.register(SLAVE, T1, T2)

    response = await serving.call(
        RequestCode.GET_BROKER_MEMBER_GROUP, {"clusterName": "C1", "brokerName": "broker-a"}
    )

    assert response.remark == "not set any response code"
    assert response.body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"10.1.1.7:10911",1:"10.1.1.8:10911"},'
        b'"brokerName":"broker-a","cluster":"C1"}}'
    )


async def test_a_topic_by_hand_is_taken_if_all_its_brokers_are_known(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    await serving.register(BROKER, T1, T2)

    for topic, name in (("R1", "broker-a"), ("R2", "nobody")):
        body = json.dumps({"queueDatas": [{"brokerName": name, "perm": 6}]}).encode()
        assert (await serving.call(217, {"topic": topic}, body)).code == 0
    assert (await serving.call(217, {"topic": "R3"})).code == 0

    assert sorted(serving.table.topics()) == ["R1", "T1", "T2"]


async def test_deletion_by_registration_follows_its_key(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    await serving.register(BROKER, T1, T2)
    await serving.register(BROKER, T1, counter=2)
    assert sorted(serving.table.topics()) == ["T1", "T2"]

    await serving.settings.update({"deleteTopicWithBrokerRegistration": "true"})
    await serving.register(BROKER, T1, counter=3)

    assert serving.table.topics() == ["T1"]


async def test_the_same_table_sent_again_brings_back_what_was_removed_since(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    for _ in range(2):
        await serving.register(BROKER, T1, T2)
    serving.table.delete_topic("T1")

    await serving.register(BROKER, T1, T2)

    assert sorted(serving.table.topics()) == ["T1", "T2"]


async def test_the_same_table_sent_again_is_a_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 0
    monkeypatch.setattr("emberq.nameserver.server._now_ms", lambda: now_ms)
    serving = Serving(tmp_path)
    await serving.register(BROKER, T1, T2, heartbeatTimeoutMillis="1000")

    now_ms = 900
    await serving.register(BROKER, T1, T2, heartbeatTimeoutMillis="2000")

    assert serving.table.expired(2_900) == []
    assert len(serving.table.expired(2_901)) == 1


async def test_the_same_table_counts_anew_for_a_broker_with_another_id(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    await serving.register(SLAVE, T1, T2)
    assert serving.table.topics() == []

    await serving.register(replace(SLAVE, id=0), T1, T2)

    assert sorted(serving.table.topics()) == ["T1", "T2"]
