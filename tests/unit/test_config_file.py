import pytest
from msgspec import Struct

from emberq.config_file import keys_of, nearest, read_settings, to_file, to_properties
from emberq.errors import ConfigError


class Sample(Struct, frozen=True, kw_only=True, rename="camel"):
    is_on: bool = False
    port_number: int = 1
    ratio: float = 0.5
    some_name: str = "x"
    some_path: str | None = None


def test_absent_keys_keep_their_defaults() -> None:
    assert read_settings(Sample, {}) == Sample()


def test_values_are_read_by_the_type_of_their_key() -> None:
    texts = {
        "isOn": "TRUE",
        "portNumber": " 7 ",
        "ratio": "2",
        "someName": " a b ",
        "somePath": "p",
    }

    assert read_settings(Sample, texts) == Sample(
        is_on=True, port_number=7, ratio=2.0, some_name="a b", some_path="p"
    )


def test_keys_of_others_are_left_alone() -> None:
    assert read_settings(Sample, {"listenPort": "9876"}) == Sample()


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("portNumber", "abc", "a whole number"),
        ("portNumber", "1.5", "a whole number"),
        ("portNumber", "", "a whole number"),
        ("isOn", "yes", "true or false"),
        ("isOn", "1", "true or false"),
        ("ratio", "half", "a number"),
    ],
)
def test_a_value_of_the_wrong_type_names_the_key_and_what_it_wants(
    key: str, text: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=f"{key}='{text}': expected {expected}"):
        read_settings(Sample, {key: text})


def test_settings_become_the_text_they_are_read_from() -> None:
    settings = Sample(is_on=True, port_number=-3, some_path="p")

    texts = to_properties(settings)

    assert texts == {
        "isOn": "true",
        "portNumber": "-3",
        "ratio": "0.5",
        "someName": "x",
        "somePath": "p",
    }
    assert read_settings(Sample, texts) == settings


def test_a_key_without_a_value_is_not_written() -> None:
    assert "somePath" not in to_properties(Sample())


def test_keys_have_their_official_spelling() -> None:
    assert keys_of(Sample) == ["isOn", "portNumber", "ratio", "someName", "somePath"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("portNumbre", "portNumber"), ("PORTNUMBER", "portNumber"), ("colour", None)],
)
def test_the_nearest_key_is_named_only_if_one_is_near(name: str, meant: str | None) -> None:
    assert nearest(name, keys_of(Sample)) == meant


def test_ordinary_properties_are_written_as_official_servers_write_them() -> None:
    assert to_file({"listenPort": "9876", "kvConfigPath": "/a:b/c=d #1"}) == (
        b"listenPort=9876\nkvConfigPath=/a:b/c=d #1\n"
    )
