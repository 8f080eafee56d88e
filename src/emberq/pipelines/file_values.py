"""Values of a YAML file as the texts that options take: lists, numbers, times and switches."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Struct

from emberq.errors import ConfigError

_COMMA = ","
# What stands between the members of a list where it is no comma, by options in small letters.
_SEPARATORS = {"nameserver": ";", "endpoints": ";", "tags": " || "}
# Options that are JSON, which is YAML as well: whoever leaves out the quotes means the same.
_JSON = frozenset(
    {
        *("assign", "startingoffsets", "endingoffsets"),
        *("startingoffsetsbytimestamp", "endingoffsetsbytimestamp"),
    }
)


def names_of(text: str) -> list[str]:
    """An option that lists names: those between commas, each once."""
    return list(dict.fromkeys(filter(None, map(str.strip, text.split(_COMMA)))))


def option_value(kind: Any, option: str, value: Any) -> Any:
    """What YAML made of an option, as an option of this type takes it.

    Numbers and switches stay as they are where the option is one.

    Raises:
        ConfigError: it cannot be turned; it names the option.
    """
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, Struct):
        types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        return {
            key: option_value(types.get(key), f"{option}.{key}", each)
            for key, each in _pairs(option, value).items()
        }
    if get_origin(kind) is dict:
        return {
            key: _text(f"{option}.{key}", key, _as_switch(each))
            for key, each in _pairs(option, value).items()
        }
    return _text(option, option, value) if kind is str else value


def _pairs(option: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{option}: expected options, not {value!r}")
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(f"{option}: {key!r} is no name of an option; put it in quotes")
    return {key: each for key, each in value.items() if each is not None}  # `key:` says nothing


def _as_switch(value: Any) -> Any:
    """Options of Spark are texts, also those that are switched on and off."""
    return str(value).lower() if isinstance(value, bool) else value


def _text(place: str, option: str, value: Any) -> str:
    if isinstance(value, list):
        separator = _SEPARATORS.get(option.lower(), _COMMA)
        return separator.join(_word(place, each) for each in value)
    if isinstance(value, Mapping) and option.lower() in _JSON:
        return msgspec.json.encode(value).decode()
    return _word(place, value)


def _word(place: str, value: Any) -> str:
    if isinstance(value, bool):
        word = str(value).lower()
        raise ConfigError(f"{place}: YAML reads it as {word}; put it in quotes if it is a name")
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    raise ConfigError(f"{place}: expected text, not {value!r}")
