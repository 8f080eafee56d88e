"""What users can set or call is documented, and the documentation knows nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from msgspec import Struct
from msgspec.structs import fields

from emberq.broker.config import BrokerConfig
from emberq.broker.settings import KEPT_UNTIL_RESTART, STORE_KEYS_AT_ONCE
from emberq.cli.main import emberq
from emberq.config_file import keys_of, to_properties
from emberq.nameserver.config import NameServerConfig
from emberq.remoting.tls import TLS_KEYS
from emberq.store.config import StoreConfig

ROOT = Path(__file__).resolve().parents[2]
CLI_PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text()
NAMESRV_PAGE = (ROOT / "docs" / "reference" / "namesrv-configuration.md").read_text()
BROKER_PAGE = (ROOT / "docs" / "reference" / "broker-configuration.md").read_text()
KEY_ROW = re.compile(r"^\| `([\w.]+)` \| (.+?) \| (at once|at start|none) \| .+ \|$", re.MULTILINE)
KEYS = {key: (default, effect) for key, default, effect in KEY_ROW.findall(NAMESRV_PAGE)}
BROKER_KEYS = {key: (default, effect) for key, default, effect in KEY_ROW.findall(BROKER_PAGE)}
# Their default depends on where the program runs.
DEFAULT_FROM_OUTSIDE = {
    *("brokerConfigPath", "brokerIP1", "brokerIP2", "brokerName", "configStorePath"),
    *("kvConfigPath", "namesrvAddr", "rocketmqHome", "storePathCommitLog", "storePathRootDir"),
}
SOURCES = [
    path.read_text()
    for package in ("nameserver", "cli")
    for path in (ROOT / "src" / "emberq" / package).rglob("*.py")
]
BROKER_SOURCES = [
    path.read_text()
    for package in ("broker", "cli", "store")
    for path in (ROOT / "src" / "emberq" / package).rglob("*.py")
]


def commands(
    command: click.Command = emberq, path: str = "emberq"
) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, f"{path} {name}")


COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_is_in_the_reference(path: str) -> None:
    until_next = rf"^#+ `{path}`$(.*?)(?=^#+ `emberq|\Z)"
    section = re.search(until_next, CLI_PAGE, re.MULTILINE | re.DOTALL)

    assert section is not None, f"{path} has no section in docs/reference/cli.md"
    for parameter in COMMANDS[path].params:
        for option in parameter.opts if isinstance(parameter, click.Option) else ():
            assert f"`{option}" in section[1], f"{path} {option}"


def test_the_reference_names_no_command_that_is_not_there() -> None:
    documented = set(re.findall(r"^#+ `(emberq[ \w-]*)`$", CLI_PAGE, re.MULTILINE))

    assert documented == set(COMMANDS)


def test_every_key_of_the_name_server_is_documented_and_no_other() -> None:
    assert list(KEYS) == keys_of(NameServerConfig)


def test_documented_defaults_are_the_defaults() -> None:
    defaults = to_properties(NameServerConfig())

    assert {
        key: default for key, (default, _) in KEYS.items() if key not in DEFAULT_FROM_OUTSIDE
    } == {key: f"`{text}`" for key, text in defaults.items() if key not in DEFAULT_FROM_OUTSIDE}


@pytest.mark.parametrize("key", keys_of(NameServerConfig))
def test_a_key_has_an_effect_exactly_if_the_page_says_so(key: str) -> None:
    attributes = {field.encode_name: field.name for field in fields(NameServerConfig)}
    use = re.compile(rf"\.{attributes[key]}\b")

    assert any(use.search(source) for source in SOURCES) is (KEYS[key][1] != "none")


def test_every_key_of_the_broker_is_documented_and_no_other() -> None:
    assert sorted(BROKER_KEYS) == sorted([*keys_of(BrokerConfig), *keys_of(StoreConfig)])


def test_documented_defaults_of_the_broker_are_the_defaults() -> None:
    defaults = {**to_properties(BrokerConfig()), **to_properties(StoreConfig())}

    assert {
        key: default for key, (default, _) in BROKER_KEYS.items() if key not in DEFAULT_FROM_OUTSIDE
    } == {key: f"`{text}`" for key, text in defaults.items() if key not in DEFAULT_FROM_OUTSIDE}


@pytest.mark.parametrize("settings_type", [BrokerConfig, StoreConfig])
def test_a_key_of_the_broker_has_an_effect_exactly_if_the_page_says_so(
    settings_type: type[Struct],
) -> None:
    wrong = [
        field.encode_name
        for field in fields(settings_type)
        if (BROKER_KEYS[field.encode_name][1] == "none")
        is any(re.search(rf"\.{field.name}\b", source) for source in BROKER_SOURCES)
    ]

    assert wrong == []


def test_keys_that_wait_for_a_restart_are_documented_so() -> None:
    kept = {field.encode_name for field in fields(BrokerConfig) if field.name in KEPT_UNTIL_RESTART}
    kept |= {
        field.encode_name for field in fields(StoreConfig) if field.name not in STORE_KEYS_AT_ONCE
    }

    assert {key for key in kept if BROKER_KEYS[key][1] == "at once"} == set()


def test_every_tls_key_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `(tls\.[\w.]+)` \|", NAMESRV_PAGE, re.MULTILINE)

    assert sorted(documented) == sorted(TLS_KEYS)
