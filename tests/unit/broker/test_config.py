"""Where a broker's configuration comes from, and what it refuses."""

from pathlib import Path

import pytest

from emberq.broker.config import BrokerConfig, LoadedConfig, load, updated
from emberq.errors import ConfigError
from emberq.store.config import StoreConfig


def loaded(folder: Path, text: str, **environment: str) -> LoadedConfig:
    file = folder / "broker.conf"
    file.write_text(text)
    return load(file, {}, environment)


def test_one_file_serves_broker_and_store(tmp_path: Path) -> None:
    config = loaded(tmp_path, "brokerName=b\nbrokerIP1=10.0.0.1\nfileReservedTime = 48\n")

    assert config.config.broker_name == "b"
    assert config.config.broker_ip1 == "10.0.0.1"
    assert config.store.file_reserved_time == 48
    assert config.warnings == []


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=1234\n")

    assert load(file, {"listenPort": "4321"}, {}).config.listen_port == 4321


def test_the_environment_names_name_servers_unless_the_file_does(tmp_path: Path) -> None:
    from_environment = loaded(tmp_path, "", NAMESRV_ADDR="a:1;b:2", ROCKETMQ_HOME="/opt/mq")
    from_file = loaded(tmp_path, "namesrvAddr=c:3", NAMESRV_ADDR="a:1")

    assert from_environment.config.name_servers == ["a:1", "b:2"]
    assert from_environment.config.rocketmq_home == "/opt/mq"
    assert from_file.config.name_servers == ["c:3"]


def test_a_broker_without_a_name_is_called_like_its_host() -> None:
    assert load(None, {}, {}).config.broker_name


def test_updates_go_where_the_configuration_was_read(tmp_path: Path) -> None:
    with_file = loaded(tmp_path, f"storePathRootDir={tmp_path}/s\nbrokerConfigPath=/elsewhere\n")
    without = load(None, {"storePathRootDir": str(tmp_path / "s")}, {})

    assert with_file.config.broker_config_path == str(tmp_path / "broker.conf")
    assert without.config.broker_config_path == str(tmp_path / "s/config/broker.properties")


def test_an_unknown_key_is_named_with_its_nearest_neighbour(tmp_path: Path) -> None:
    config = loaded(tmp_path, "autoCreateTopicEnabled=true\nfoo=1\n")

    assert config.warnings == [
        "unknown key autoCreateTopicEnabled has no effect; did you mean autoCreateTopicEnable?",
        "unknown key foo has no effect",
    ]
    assert config.kept_properties == {"autoCreateTopicEnabled": "true", "foo": "1"}


def test_official_keys_that_mean_nothing_here_are_noted_and_no_mistake(tmp_path: Path) -> None:
    config = loaded(tmp_path, "sendMessageThreadPoolNums=16\nstorePathIndex=/x\n")

    assert config.warnings == []
    assert config.notes == [
        "key sendMessageThreadPoolNums is accepted and has no effect here",
        "key storePathIndex is accepted and has no effect here",
    ]


def test_the_segment_size_spelt_with_one_p_is_taken_with_a_warning(tmp_path: Path) -> None:
    config = loaded(tmp_path, "mapedFileSizeCommitLog=65536\n")

    assert config.store.mapped_file_size_commit_log == 65_536
    assert config.warnings == ["key mapedFileSizeCommitLog is taken for mappedFileSizeCommitLog"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("listenPort=70000", "listenPort=70000: expected 0 to 65535"),
        ("listenPort=2", "listenPort=2: there is no port two below"),
        ("listenPort=abc", "listenPort='abc': expected a whole number"),
        ("brokerPermission=8", "brokerPermission=8: expected 0 to 7"),
        ("brokerName=", "brokerName is empty"),
        ("brokerRole=MASTER", "brokerRole='MASTER': choose ASYNC_MASTER or SYNC_MASTER"),
        ("brokerRole=SLAVE", "brokerRole=SLAVE: there is no replication in EmberQ yet"),
        ("namesrvAddr=a:1;b", "'b' is no address: expected host:port"),
        ("namesrvAddr=a:99999", "namesrvAddr=a:99999: expected ports of 1 to 65535"),
        ("flushDiskType=FAST", "flushDiskType='FAST': choose ASYNC_FLUSH or SYNC_FLUSH"),
        ("maxMessageSize=0", "maxMessageSize=0: expected a number above 0"),
        ("defaultTopicQueueNums=0", "defaultTopicQueueNums=0: expected a number above 0"),
        (
            "enableDLegerCommitLog=true",
            "enableDLegerCommitLog=true: there is no automatic failover in EmberQ yet",
        ),
        (
            "enableControllerMode=true",
            "enableControllerMode=true: there is no controller in EmberQ yet",
        ),
        (
            "writeBufferHighWaterMark=1\\nwriteBufferLowWaterMark=2",
            "writeBufferHighWaterMark='1\\nwriteBufferLowWaterMark=2': expected a whole number",
        ),
    ],
)
def test_values_that_no_broker_can_run_with_are_refused(
    tmp_path: Path, line: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, line)

    assert str(refused.value) == reason


def test_a_low_mark_above_the_high_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="a low mark that is not above the high one"):
        load(None, {"writeBufferHighWaterMark": "1", "writeBufferLowWaterMark": "2"}, {})


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        load(tmp_path / "none.conf", {}, {})


def test_the_register_period_has_bounds() -> None:
    assert BrokerConfig(register_name_server_period=1).register_period_s == 10
    assert BrokerConfig(register_name_server_period=30_000).register_period_s == 30
    assert BrokerConfig(register_name_server_period=10**9).register_period_s == 60


def test_a_bad_update_changes_nothing() -> None:
    config = BrokerConfig(broker_name="b")

    with pytest.raises(ConfigError):
        updated(config, StoreConfig(), {"brokerPermission": "4", "flushDiskType": "FAST"})


def test_an_update_reaches_broker_and_store() -> None:
    config, store = updated(
        BrokerConfig(broker_name="b"),
        StoreConfig(),
        {"brokerPermission": "4", "fileReservedTime": "1", "unknown": "x"},
    )

    assert config.broker_permission == 4
    assert store.file_reserved_time == 1
