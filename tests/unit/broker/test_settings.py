"""Updates of a running broker's configuration."""

from pathlib import Path

import pytest

from emberq.broker.config import BrokerConfig, load
from emberq.broker.settings import Settings
from emberq.errors import ConfigError


def new_settings(folder: Path) -> Settings:
    file = folder / "broker.conf"
    file.write_text("brokerName=b\nlistenPort=10911\nstrange=kept\ntls.server.keyPassword=secret\n")
    loaded = load(file, {}, {})
    return Settings(loaded.config, loaded.store, loaded.kept_properties)


async def test_an_update_counts_at_once_and_is_found_at_the_next_start(tmp_path: Path) -> None:
    settings = new_settings(tmp_path)
    seen: list[BrokerConfig] = []
    settings.on_change(seen.append)

    await settings.update({"brokerPermission": "4", "fileReservedTime": "7"})

    assert settings.config.broker_permission == 4
    assert settings.store.file_reserved_time == 7
    assert seen == [settings.config]
    again = load(tmp_path / "broker.conf", {}, {})
    assert again.config.broker_permission == 4
    assert again.store.file_reserved_time == 7
    assert again.kept_properties["strange"] == "kept"


async def test_what_only_a_start_can_change_is_stored_and_does_not_count_yet(
    tmp_path: Path,
) -> None:
    settings = new_settings(tmp_path)

    await settings.update({"listenPort": "1234", "flushDiskType": "SYNC_FLUSH"})
    await settings.update({"brokerPermission": "4"})

    assert settings.config.listen_port == 10_911
    assert settings.store.flush_disk_type == "ASYNC_FLUSH"
    assert b"listenPort=1234\n" in settings.text()
    again = load(tmp_path / "broker.conf", {}, {})
    assert again.config.listen_port == 1234
    assert again.store.flush_disk_type == "SYNC_FLUSH"


async def test_a_value_that_means_nothing_changes_nothing(tmp_path: Path) -> None:
    settings = new_settings(tmp_path)
    before = (settings.config, settings.store, (tmp_path / "broker.conf").read_bytes())

    with pytest.raises(ConfigError):
        await settings.update({"brokerPermission": "4", "listenPort": "x"})

    assert (settings.config, settings.store, (tmp_path / "broker.conf").read_bytes()) == before


async def test_a_file_that_cannot_be_written_leaves_the_settings(tmp_path: Path) -> None:
    settings = new_settings(tmp_path)
    (tmp_path / "broker.conf.tmp").mkdir()

    with pytest.raises(OSError, match="directory"):
        await settings.update({"brokerPermission": "4"})

    assert settings.config.broker_permission == 6


def test_the_text_for_tools_shows_our_keys_and_no_secrets(tmp_path: Path) -> None:
    text = new_settings(tmp_path).text()

    assert b"brokerName=b\n" in text
    assert b"fileReservedTime=72\n" in text
    assert b"secret" not in text
