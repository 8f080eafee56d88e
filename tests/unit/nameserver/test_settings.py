from pathlib import Path

import pytest

from emberq.errors import ConfigError
from emberq.nameserver.config import NameServerConfig, load
from emberq.nameserver.settings import Settings


def load_from(file: Path) -> Settings:
    loaded = load(file, {}, {"HOME": str(file.parent)})
    return Settings(loaded.config, loaded.kept_properties)


async def test_an_update_is_in_force_and_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("productEnvName=pre\n")
    settings = load_from(file)

    await settings.update({"orderMessageEnable": "true"})

    assert settings.config.order_message_enable
    assert load_from(file).config == settings.config


async def test_an_update_keeps_keys_that_are_not_ours_and_tells_nobody(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("tls.server.mode=enforcing\ntls.server.keyPassword=secret\ncolour=red\n")
    settings = load_from(file)

    await settings.update({"orderMessageEnable": "true"})

    stored = file.read_text()
    assert "tls.server.mode=enforcing\ntls.server.keyPassword=secret\ncolour=red\n" in stored
    assert b"secret" not in settings.text()


@pytest.mark.parametrize(
    "value", ["C:\\new\\table", "a\nkvConfigPath=/elsewhere", "ü€😀", "a = b : c", "#x"]
)
async def test_a_stored_value_is_the_same_after_a_restart(tmp_path: Path, value: str) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("")
    settings = load_from(file)

    await settings.update({"productEnvName": value})

    assert load_from(file).config == settings.config
    assert settings.config.product_env_name == value


async def test_a_refused_update_changes_neither_memory_nor_file(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPort=1\n")
    settings = load_from(file)
    before = settings.config

    with pytest.raises(ConfigError):
        await settings.update({"listenPort": "-1"})

    assert settings.config is before
    assert file.read_text() == "listenPort=1\n"


async def test_an_update_that_cannot_be_stored_is_not_in_force(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = Settings(NameServerConfig(config_store_path=str(tmp_path / "file" / "below")))

    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        await settings.update({"clusterTest": "true"})

    assert not settings.config.cluster_test


def test_the_text_shows_one_line_per_key() -> None:
    lines = Settings(NameServerConfig(listen_port=1)).text().decode().splitlines()

    assert "listenPort=1" in lines
    assert lines == sorted(lines)
