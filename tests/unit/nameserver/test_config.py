import re
from pathlib import Path

import pytest

from emberq.config_file import to_properties
from emberq.errors import ConfigError
from emberq.nameserver.config import LoadedConfig, NameServerConfig, load, updated
from emberq.remoting import server_keys
from emberq.remoting.limits import RemotingLimits
from emberq.remoting.tls import TlsMode

MIB = 1024 * 1024


def load_text(tmp_path: Path, text: str, **overrides: str) -> LoadedConfig:
    file = tmp_path / "namesrv.conf"
    file.write_text(text)
    return load(file, overrides, {"HOME": str(tmp_path)})


def test_without_a_file_the_official_places_below_home_are_used(tmp_path: Path) -> None:
    loaded = load(None, {}, {"HOME": str(tmp_path), "ROCKETMQ_HOME": "opt"})

    assert loaded.config == NameServerConfig(
        kv_config_path=str(tmp_path / "namesrv" / "kvConfig.json"),
        config_store_path=str(tmp_path / "namesrv" / "namesrv.properties"),
        rocketmq_home="opt",
    )
    assert loaded.tls.mode is TlsMode.PERMISSIVE
    assert loaded.warnings == []


def test_the_command_line_wins_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    text = "listenPort=1\nproductEnvName=pre\n"

    config = load_text(tmp_path, text, listenPort="2").config

    assert (config.listen_port, config.product_env_name, config.cluster_test) == (2, "pre", False)


def test_updates_are_stored_in_the_file_that_was_read_whatever_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.conf").write_text("configStorePath=/elsewhere\n")
    monkeypatch.chdir(tmp_path)

    loaded = load(Path("a.conf"), {}, {"HOME": str(tmp_path)})

    assert loaded.config.config_store_path == str(tmp_path / "a.conf")


def test_unknown_keys_are_warned_about_with_the_nearest_known_one(tmp_path: Path) -> None:
    text = "listenPrt=1\ncolour=red\ntls.server.mod=enforcing\ntls.server.mode=permissive\n"

    assert load_text(tmp_path, text).warnings == [
        "unknown key colour has no effect",
        "unknown key listenPrt has no effect; did you mean listenPort?",
        "unknown key tls.server.mod has no effect; did you mean tls.server.mode?",
    ]


def test_what_is_not_ours_in_a_file_is_kept_for_its_next_version(tmp_path: Path) -> None:
    text = "listenPort=1\ntls.server.mode=enforcing\ncolour=red\n"

    loaded = load_text(tmp_path, text, enableTopicList="false")

    assert loaded.tls.mode is TlsMode.ENFORCING
    assert loaded.kept_properties == {"tls.server.mode": "enforcing", "colour": "red"}


def test_tls_settings_may_come_from_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "tls.properties").write_text(
        "tls.server.mode=enforcing\ntls.server.need.client.auth=require\n"
    )
    text = f"tls.config.file={tmp_path}/tls.properties\ntls.server.need.client.auth=optional\n"

    tls = load_text(tmp_path, text).tls

    assert (tls.mode, tls.client_certificate) == (TlsMode.ENFORCING, "optional")


def test_the_official_tls_file_is_read_where_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tls.properties"
    monkeypatch.setattr(server_keys, "SETTINGS_FILE_DEFAULT", file)
    assert load_text(tmp_path, "").tls.mode is TlsMode.PERMISSIVE

    file.write_text("tls.server.mode=disabled\n")

    assert load_text(tmp_path, "").tls.mode is TlsMode.DISABLED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listenPort=abc", "listenPort='abc': expected a whole number"),
        ("listenPort=65536", "listenPort=65536: expected 0 to 65535"),
        ("listenPort=-1", "listenPort=-1: expected 0 to 65535"),
        ("clusterTest=maybe", "clusterTest='maybe': expected true or false"),
        (
            "scanNotActiveBrokerInterval=0",
            "scanNotActiveBrokerInterval=0: expected a number above 0",
        ),
        ("serverSocketBacklog=-5", "serverSocketBacklog=-5: expected a number above 0"),
        ("enableControllerInNamesrv=true", "there is no controller in EmberQ yet"),
        ("writeBufferLowWaterMark=-1", "writeBufferLowWaterMark=-1: expected 0 for the default"),
        (
            "writeBufferHighWaterMark=10\nwriteBufferLowWaterMark=20",
            "a low mark that is not above the high one",
        ),
        ("tls.server.mode=on", "choose disabled, permissive or enforcing"),
        ("tls.config.file=/no/such/file", "/no/such/file: No such file or directory"),
        ("a=\\u12", "namesrv.conf: properties with the escape"),
    ],
)
def test_what_means_nothing_is_refused_in_words(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_text(tmp_path, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.conf: No such file or directory"):
        load(tmp_path / "gone.conf", {}, {})
    with pytest.raises(ConfigError, match="Is a directory"):
        load(tmp_path, {}, {})


def test_an_update_changes_what_it_names_and_nothing_else() -> None:
    config = NameServerConfig(product_env_name="pre", listen_port=1)

    changed = updated(config, {"clusterTest": "true", "colour": "red"})

    assert changed == NameServerConfig(product_env_name="pre", listen_port=1, cluster_test=True)
    with pytest.raises(ConfigError):
        updated(config, {"listenPort": "-1"})


def test_the_black_list_holds_the_fixed_keys_whatever_the_configuration_says() -> None:
    fixed = {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}

    assert NameServerConfig(config_black_list="").black_list == fixed
    assert NameServerConfig(config_black_list="a;;b").black_list == fixed | {"a", "b"}


def test_every_key_with_a_value_has_a_text() -> None:
    texts = to_properties(NameServerConfig(rocketmq_home="opt"))

    assert list(texts) == sorted(texts)  # the order in which official servers show them
    assert len(texts) == len(NameServerConfig.__struct_fields__)


@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [
        (0, 0, (4 * MIB, 1 * MIB)),
        (1024, 0, (1024, 1024)),
        (8 * MIB, 0, (8 * MIB, 1 * MIB)),
        (0, 512, (4 * MIB, 512)),
        (0, 8 * MIB, (8 * MIB, 8 * MIB)),
        (2048, 1024, (2048, 1024)),
    ],
)
def test_write_buffer_marks_never_cross(high: int, low: int, expected: tuple[int, int]) -> None:
    config = NameServerConfig(write_buffer_high_water_mark=high, write_buffer_low_water_mark=low)

    limits = config.limits()

    assert (limits.write_buffer_high_bytes, limits.write_buffer_low_bytes) == expected


def test_network_limits_follow_their_keys() -> None:
    limits = NameServerConfig(
        server_socket_backlog=7, server_channel_max_idle_time_seconds=3
    ).limits()

    assert limits == RemotingLimits(backlog=7, idle_max_s=3.0)
