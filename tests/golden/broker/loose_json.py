"""Reads the JSON of official bodies, whose maps may have numbers or objects as keys.

Deliberately built without `emberq`: what checks our codec must not be made of it.
"""

import json
import re
from typing import Any

_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null')
_BLANKS = re.compile(r"[ \t\r\n]*")


class NotJson(Exception):
    """The text is something else."""


def parse_loose_json(text: str) -> Any:
    """The value; keys that are not strings become their compact JSON text."""
    value, position = _value(text, _skip(text, 0))
    if _skip(text, position) != len(text):
        raise NotJson(text[position : position + 40])
    return value


def _skip(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    assert found is not None
    return found.end()


def _value(text: str, position: int) -> tuple[Any, int]:
    opening = text[position : position + 1]
    if opening == "{":
        return _object(text, position)
    if opening == "[":
        return _list(text, position)
    found = _SCALAR.match(text, position)
    if found is None:
        raise NotJson(text[position : position + 40])
    return json.loads(found.group(), strict=False), found.end()


def _object(text: str, position: int) -> tuple[dict[str, Any], int]:
    entries: dict[str, Any] = {}
    position = _skip(text, position + 1)
    while text[position : position + 1] != "}":
        key, position = _value(text, position)
        position = _skip(text, position)
        if text[position : position + 1] != ":":
            raise NotJson(text[position : position + 40])
        value, position = _value(text, _skip(text, position + 1))
        entries[key if isinstance(key, str) else _key_text(key)] = value
        position = _after_comma(text, position)
    return entries, position + 1


def _list(text: str, position: int) -> tuple[list[Any], int]:
    entries: list[Any] = []
    position = _skip(text, position + 1)
    while text[position : position + 1] != "]":
        value, position = _value(text, position)
        entries.append(value)
        position = _after_comma(text, position)
    return entries, position + 1


def _after_comma(text: str, position: int) -> int:
    position = _skip(text, position)
    if text[position : position + 1] == ",":
        return _skip(text, position + 1)
    if text[position : position + 1] not in ("}", "]"):
        raise NotJson(text[position : position + 40])
    return position


def _key_text(key: Any) -> str:
    return json.dumps(key, sort_keys=True, separators=(",", ":"))
