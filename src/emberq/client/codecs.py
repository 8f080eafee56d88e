"""Bodies as values: how a producer turns them into bytes, and a consumer back.

A codec is a pair of functions. `codec_for` makes one from what people write: `bytes`, `str`, `dict`
and other plain types, dataclasses, msgspec structs, and Pydantic models where that is installed.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from emberq.errors import ConfigError, MessageRefused

T = TypeVar("T")


class Codec(Struct, Generic[T], frozen=True):
    """`encode` raises for what it cannot turn into bytes, `decode` for bytes that make no sense."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


def codec_for(kind: Any) -> "Codec[Any]":
    """The codec of a type, or the codec that is given.

    Raises:
        ConfigError: no codec is known for it.
    """
    if isinstance(kind, Codec):
        return kind
    if kind is None or kind is bytes:
        return BYTES
    if kind is str:
        return TEXT
    if hasattr(kind, "model_validate_json") and hasattr(kind, "model_dump_json"):
        return Codec(
            lambda value: cast(bytes, value.model_dump_json().encode()), kind.model_validate_json
        )
    try:
        decoder = msgspec.json.Decoder(kind)
    except (TypeError, RuntimeError) as error:
        raise ConfigError(f"no codec for {kind!r}: {error}") from None
    return Codec(_to_json, decoder.decode)


def _to_json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, msgspec.MsgspecError) as error:
        raise MessageRefused(f"{type(value).__name__} cannot be written as JSON: {error}") from None


def _to_text(value: object) -> bytes:
    if not isinstance(value, str):
        raise MessageRefused(f"this producer sends text, not {type(value).__name__}")
    return value.encode()


def _plain(value: object) -> bytes:
    """Checked again where the message is made; text is a mistake that is easy to name."""
    if isinstance(value, str):
        raise MessageRefused("a body is bytes; text needs .encode(), or a producer with codec=str")
    return value  # type: ignore[return-value] # whatever it is, the check of bodies names it


BYTES: Codec[bytes] = Codec(_plain, bytes)
TEXT: Codec[str] = Codec(_to_text, lambda body: body.decode())
JSON: Codec[Any] = Codec(_to_json, msgspec.json.decode)
