"""Bodies as values."""

from dataclasses import dataclass
from typing import Any

import pytest

from emberq.client.codecs import JSON, codec_for
from emberq.errors import ConfigError, MessageRefused


@dataclass
class Order:
    number: int
    name: str


class Model:
    """What Pydantic models look like from here."""

    def model_dump_json(self) -> str:
        return '"model"'

    @classmethod
    def model_validate_json(cls, body: bytes) -> "Model":
        assert body == b'"model"'
        return cls()


@pytest.mark.parametrize(
    ("kind", "value", "body"),
    [
        (bytes, b"x", b"x"),
        (None, b"x", b"x"),
        (str, "ü", "ü".encode()),
        (dict[str, int], {"a": 1}, b'{"a":1}'),
        (Order, Order(1, "x"), b'{"number":1,"name":"x"}'),
        (JSON, [1], b"[1]"),
    ],
)
def test_values_become_bytes_and_come_back(kind: Any, value: object, body: bytes) -> None:
    codec = codec_for(kind)

    assert codec.encode(value) == body
    assert codec.decode(body) == value


def test_pydantic_models_write_themselves() -> None:
    codec = codec_for(Model)

    assert codec.encode(Model()) == b'"model"'
    assert isinstance(codec.decode(b'"model"'), Model)


@pytest.mark.parametrize(
    ("kind", "value"), [(bytes, "text"), (str, b"bytes"), (dict[str, Any], object())]
)
def test_a_value_of_another_kind_is_refused(kind: Any, value: object) -> None:
    with pytest.raises(MessageRefused):
        codec_for(kind).encode(value)


def test_a_kind_without_a_codec_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no codec"):
        codec_for(3)
