import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.testing.local_nameserver import Broker
from tests.unit.nameserver.serving import Serving

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
BROKER = Broker()
T1, T2 = TopicConfig(name="T1"), TopicConfig(name="T2")


@pytest.fixture
async def serving(tmp_path: Path) -> Serving:
    serving = Serving(tmp_path)
    await serving.register(BROKER, T1, T2)
    return serving


@pytest.mark.parametrize(
    ("version", "wish", "is_strict"),
    [
        (317, None, False),
        (400, None, False),
        (401, None, True),
        (513, None, True),
        (317, "true", True),
        (317, "TRUE", True),
        (317, "false", False),
        (513, "false", True),
    ],
)
async def test_strict_json_is_for_new_clients_and_those_who_ask(
    serving: Serving, version: int, wish: str | None, is_strict: bool
) -> None:
    fields = {"topic": "T1"} | ({"acceptStandardJsonOnly": wish} if wish else {})

    response = await serving.call(ROUTE, fields, version=version)

    key = b'"0"' if is_strict else b"0"
    assert b'"brokerAddrs":{' + key + b':"10.1.1.7:10911"}' in response.body
    assert response.fields is None


@pytest.mark.parametrize(("fields", "shown"), [({"topic": "a/ü"}, "a/ü"), ({}, "null")])
async def test_an_unknown_topic_has_no_route(
    serving: Serving, fields: dict[str, str], shown: str
) -> None:
    response = await serving.call(ROUTE, fields)

    assert response.code == ResponseCode.TOPIC_NOT_EXIST
    assert response.remark == (
        f"No topic route info in name server for the topic: {shown}\n"
        "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
    )


async def test_the_order_of_a_topic_is_told_where_it_is_enabled(serving: Serving) -> None:
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T1", "value": "broker-a:4"}
    await serving.call(RequestCode.PUT_KV_CONFIG, order)
    assert b"orderTopicConf" not in (await serving.call(ROUTE, {"topic": "T1"})).body

    await serving.call(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
    assert b'"orderTopicConf":"broker-a:4"' in (await serving.call(ROUTE, {"topic": "T1"})).body
    assert b"orderTopicConf" not in (await serving.call(ROUTE, {"topic": "T2"})).body

    await serving.call(RequestCode.DELETE_KV_CONFIG, order)
    assert b"orderTopicConf" not in (await serving.call(ROUTE, {"topic": "T1"})).body


async def test_an_acting_master_is_shown_once_the_configuration_says_so(serving: Serving) -> None:
    slave = replace(BROKER, name="b", id=1, address="10.1.1.9:1")
    topic = {"topic": "S1"}
    await serving.register(
        slave, TopicConfig(name="S1"), TopicConfig(name="S2"), enableActingMaster="true"
    )
    assert b'{"1":"10.1.1.9:1"}' in (await serving.call(ROUTE, topic)).body

    await serving.call(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"supportActingMaster=true")

    assert b'{"0":"10.1.1.9:1"}' in (await serving.call(ROUTE, topic)).body


class TestZones:
    async def brokers(self, serving: Serving, **fields: str) -> tuple[list[str], bytes]:
        response = await serving.call(ROUTE, {"topic": "T1", **fields})
        text = response.body.replace(b"{0:", b'{"0":')
        return [broker["brokerName"] for broker in json.loads(text)["brokerDatas"]], response.body

    async def test_a_client_of_a_zone_gets_its_brokers_in_the_dialect(
        self, serving: Serving
    ) -> None:
        for zone in ("z1", "z2"):
            broker = replace(BROKER, name=f"broker-{zone}", address=f"10.1.1.1:{zone[1]}")
            await serving.register(broker, T1, T2, __ZONE_NAME=zone)

        names, body = await self.brokers(serving, __ZONE_MODE="true", __ZONE_NAME="Z1")

        assert names == ["broker-z1"]
        assert b"{0:" in body

    async def test_without_the_mode_or_a_name_all_brokers_are_told(self, serving: Serving) -> None:
        for fields in (
            {"__ZONE_NAME": "z1"},
            {"__ZONE_MODE": "false", "__ZONE_NAME": "z1"},
            {"__ZONE_MODE": "true"},
        ):
            names, body = await self.brokers(serving, **fields)
            assert names == ["broker-a"]
            assert b'{"0":' in body

    async def test_a_zone_without_brokers_gets_an_empty_route(self, serving: Serving) -> None:
        names, _ = await self.brokers(serving, __ZONE_MODE="true", __ZONE_NAME="nowhere")

        assert names == []


async def test_routes_wait_until_brokers_had_time_to_register(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    clock = SimpleNamespace(monotonic=lambda: now_s, monotonic_ns=lambda: int(now_s * 1e9))
    monkeypatch.setattr("emberq.nameserver.server.time", clock)
    serving = Serving(tmp_path, need_wait_for_service=True, wait_seconds_for_service=45)
    await serving.register(BROKER, T1, T2)

    now_s += 44.9
    response = await serving.call(ROUTE, {"topic": "T1"})
    assert (response.code, response.remark) == (1, "name server not ready")

    now_s += 0.1
    assert (await serving.call(ROUTE, {"topic": "T1"})).code == 0


class TestClusterTest:
    async def test_only_what_is_not_here_is_asked_for_elsewhere(self, tmp_path: Path) -> None:
        asked = []

        async def ask(topic: str) -> bytes | None:
            asked.append(topic)
            return b"elsewhere" if topic == "far" else None

        serving = Serving(tmp_path, ask_elsewhere=ask)
        await serving.register(BROKER, T1, T2)

        assert (await serving.call(ROUTE, {"topic": "T1"})).body.startswith(b"{")
        assert (await serving.call(ROUTE, {"topic": "far"})).body == b"elsewhere"
        assert (await serving.call(ROUTE, {"topic": "nowhere"})).code == 17
        assert (await serving.call(ROUTE, {})).code == 17
        assert asked == ["far", "nowhere"]
