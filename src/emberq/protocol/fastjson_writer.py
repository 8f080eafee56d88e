"""Writes JSON as official 5.5.0 servers do, or the strict form of it, or with tabs for files."""

import base64
import math
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import msgspec


class Dialect(Enum):
    """How map keys that are not text are written."""

    # `{0:"a"}` and `{{"queueId":0}:5}`: what brokers write, and the only form that Go clients
    # read in offset tables.
    FASTJSON = "fastjson"
    # `{"0":"a"}` and `{"{\\"queueId\\":0}":5}`: what any JSON parser reads.
    STRICT = "strict"


def write_json(value: Any, dialect: Dialect = Dialect.FASTJSON) -> bytes:
    """Compact text: members of structs in declared order (alphabetical), nulls left out."""
    return _Writer(dialect, _compact).text(value, 0).encode("utf-8")


def write_pretty_json(value: Any, dialect: Dialect = Dialect.FASTJSON) -> bytes:
    """The text of a configuration file: one member per line, indented with tabs."""
    return _Writer(dialect, _indented).text(value, 0).encode("utf-8")


def java_double(number: float) -> str:
    """The shortest decimal that reads back as `number`, with a fraction and Java's exponent."""
    if not math.isfinite(number):
        return "null"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0.0"
    if -3 < point <= 7:  # 0.001 ≤ number < 10,000,000
        digits = "0" * (1 - point) + digits
        point = max(point, 1)
        return f"{sign}{digits[:point]:0<{point}}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _compact(opening: str, items: Iterable[str], closing: str, _: int) -> str:
    return f"{opening}{','.join(items)}{closing}"


def _indented(opening: str, items: Iterable[str], closing: str, depth: int) -> str:
    lines = f",\n{chr(9) * (depth + 1)}".join(items)
    if not lines and opening == "{":
        return "{}"  # an empty array does get its empty line in 5.5.0
    return f"{opening}\n{chr(9) * (depth + 1)}{lines}\n{chr(9) * depth}{closing}"


class _Writer:
    def __init__(self, dialect: Dialect, layout: Callable[[str, Iterable[str], str, int], str]):
        self._dialect = dialect
        self._layout = layout

    def text(self, value: Any, depth: int) -> str:
        # Offset tables are maps of maps of numbers, a hundred thousand of them.
        kind = type(value)
        if kind is int:
            return repr(value)
        if kind is str:
            return _quote(value)
        if isinstance(value, msgspec.Struct):
            return self._layout("{", self._struct_members(value, depth), "}", depth)
        if isinstance(value, dict):
            return self._layout("{", self._map_members(value, depth), "}", depth)
        if isinstance(value, list | tuple | set | frozenset):
            items = [self.text(item, depth + 1) for item in value]
            return self._layout("[", items, "]", depth)
        return _scalar(value)

    def _struct_members(self, value: msgspec.Struct, depth: int) -> list[str]:
        names = value.__struct_encode_fields__
        return [
            f'"{name}":{self.text(member, depth + 1)}'
            for name, member in zip(names, msgspec.structs.astuple(value), strict=True)
            if member is not None
        ]

    def _map_members(self, value: dict[Any, Any], depth: int) -> list[str]:
        return [
            f"{self._key(key, depth + 1)}:{self.text(member, depth + 1)}"
            for key, member in value.items()
            if member is not None
        ]

    def _key(self, key: Any, depth: int) -> str:
        if isinstance(key, str) or self._dialect is Dialect.FASTJSON:
            return self.text(key, depth)
        return _quote(_Writer(self._dialect, _compact).text(key, 0))


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode("utf-8")


def _scalar(value: Any) -> str:
    if isinstance(value, Enum):
        return _quote(value.name)
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _quote(base64.b64encode(value).decode("ascii"))
    raise TypeError(f"{type(value).__name__} has no JSON form")
