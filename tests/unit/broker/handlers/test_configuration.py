import json
from pathlib import Path

import pytest

from emberq.broker.addresses import BrokerAddresses
from emberq.broker.config import BrokerConfig
from emberq.broker.handlers.configuration import ConfigurationHandlers
from emberq.broker.settings import Settings
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.protocol.properties_text import read_properties
from emberq.remoting.registry import HandlerRegistry
from emberq.store.config import StoreConfig
from tests.unit.broker.peers import Peer, ask

GET, UPDATE = RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_BROKER_CONFIG


ADDRESSES = BrokerAddresses(ip="10.1.1.7", port=10911, ha_ip="10.1.1.8", ha_port=10912)


class Configured:
    def __init__(self, home: Path) -> None:
        self.file = home / "broker.conf"
        config = BrokerConfig(broker_name="broker-a", broker_config_path=str(self.file))
        self.settings = Settings(config, StoreConfig())
        self.registry = HandlerRegistry()
        ConfigurationHandlers(self.settings, ADDRESSES, lambda: 17).add_to(self.registry)

    async def ask(self, code: int, body: bytes = b"") -> Command:
        return await ask(self.registry, Peer(), code, body=body)

    async def version(self) -> dict[str, int]:
        fields = (await self.ask(GET)).fields
        assert fields is not None
        version: dict[str, int] = json.loads(fields["version"])
        return version


@pytest.fixture
async def broker(tmp_path: Path) -> Configured:
    return Configured(tmp_path)


async def test_the_configuration_is_told_with_its_version(broker: Configured) -> None:
    answer = await broker.ask(GET)

    assert answer.fields == {"version": '{"counter":0,"stateVersion":0,"timestamp":17}'}
    properties = read_properties(answer.body)
    assert properties["brokerName"] == "broker-a"
    assert properties["flushDiskType"] == "ASYNC_FLUSH"
    assert (properties["brokerIP2"], properties["haListenPort"]) == ("10.1.1.8", "10912")


async def test_an_update_counts_at_once_and_is_stored(broker: Configured) -> None:
    answer = await broker.ask(UPDATE, b"traceOn=false\nmaxMessageSize=1000\n")

    assert (answer.code, answer.remark) == (0, None)
    assert not broker.settings.config.trace_on
    assert broker.settings.store.max_message_size == 1000
    assert b"traceOn=false\n" in broker.file.read_bytes()
    assert (await broker.version())["counter"] == 1


@pytest.mark.parametrize("key", ["brokerConfigPath", "configBlackList", "rocketmqHome"])
async def test_some_keys_cannot_be_changed(broker: Configured, key: str) -> None:
    answer = await broker.ask(UPDATE, f"traceOn=false\n{key}=x".encode())

    assert (answer.code, answer.remark) == (16, "Can not update config in black list.")
    assert broker.settings.config.trace_on


@pytest.mark.parametrize("body", [b"", b"nokey=1", b"# nothing"])
async def test_nothing_of_ours_is_success_without_a_new_version(
    broker: Configured, body: bytes
) -> None:
    assert (await broker.ask(UPDATE, body)).code == 0
    assert (await broker.version())["counter"] == 0
    assert not broker.file.exists()


async def test_values_that_mean_nothing_are_refused(broker: Configured) -> None:
    answer = await broker.ask(UPDATE, b"traceOn=maybe")
    assert answer.code == 1
    assert "traceOn" in (answer.remark or "")

    broken = await broker.ask(UPDATE, b"a=\\u12")
    assert (broken.code, broken.remark) == (1, "string2Properties error")
    assert (await broker.version())["counter"] == 0


async def test_a_file_that_cannot_be_written_is_an_error(broker: Configured) -> None:
    broker.file.mkdir()

    answer = await broker.ask(UPDATE, b"traceOn=false")
    assert answer.code == 1
    assert "could not be stored" in (answer.remark or "")
    assert broker.settings.config.trace_on
