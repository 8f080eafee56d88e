"""Builds structs from plain JSON values with the tolerance of the Java readers.

Numbers may be text, text may be numbers, an enum may be its position, null means absent, and the
keys of a map may be numbers or objects.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import Any, get_args, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from emberq.errors import ProtocolError
from emberq.protocol.bodies.shape import aliases_of, is_struct, without_none
from emberq.protocol.fastjson_reader import read_json

Reader = Callable[[Any], Any]

_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?")
ABSENT: Any = object()  # an enum's name that we do not know: the member keeps its default


@cache
def lenient_reader(kind: Any) -> Reader:
    """A function from a plain value to `kind`; it raises nothing but ProtocolError."""
    kind = without_none(kind)
    origin = get_origin(kind)
    if origin is list:
        return _list_reader(*get_args(kind))
    if origin is dict:
        return _map_reader(*get_args(kind))
    if is_struct(kind):
        return _struct_reader(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_reader(kind)
    return _SCALARS[kind]


def _struct_reader(struct_type: type[Struct]) -> Reader:
    aliases = aliases_of(struct_type)
    readers = {
        field.encode_name: (field.name, lenient_reader(field.type)) for field in fields(struct_type)
    }
    required = {
        field.name: field.encode_name
        for field in fields(struct_type)
        if field.default is NODEFAULT and field.default_factory is NODEFAULT
    }

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        if aliases:
            value = {aliases.get(name, name): member for name, member in value.items()}
        arguments = dict(_read_members(value, readers))
        for name, wire_name in required.items():
            if name not in arguments:
                raise ProtocolError(f"{wire_name} is missing")
        return struct_type(**arguments)

    return read


def _read_members(
    value: dict[str, Any], readers: dict[str, tuple[str, Reader]]
) -> Iterator[tuple[str, Any]]:
    for wire_name, (name, reader) in readers.items():
        member = value.get(wire_name)
        if member is None:
            continue
        try:
            member = reader(member)
        except ProtocolError as error:
            raise ProtocolError(f"{wire_name}: {error}") from None
        if member is not ABSENT:
            yield name, member


def _list_reader(item: Any) -> Reader:
    read_item = lenient_reader(item)

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise _mismatch("an array", value)
        return [read_item(element) for element in value]

    return read


def _map_reader(key: Any, item: Any) -> Reader:
    read_key = _object_key_reader(key) if is_struct(key) else lenient_reader(key)
    read_item = lenient_reader(item)

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        return {
            read_key(name): read_item(member)
            for name, member in value.items()
            if member is not None
        }

    return read


def _object_key_reader(struct_type: type[Struct]) -> Reader:
    read_struct = lenient_reader(struct_type)

    def read(value: Any) -> Any:
        return read_struct(read_json(value))

    return read


def _enum_reader(enum_type: type[Enum]) -> Reader:
    by_position = list(enum_type)
    by_name = {member.name: member for member in enum_type}

    def read(value: Any) -> Any:
        if type(value) is str:
            return by_name.get(value, ABSENT)
        if type(value) is not int:
            raise _mismatch("a name", value)
        if not 0 <= value < len(by_position):
            raise ProtocolError(f"position {value} of {len(by_position)} names")
        return by_position[value]

    return read


def _read_int(value: Any) -> int:
    if type(value) is int:
        return value
    try:
        if type(value) is float and value.is_integer():
            return int(value)
        if type(value) is str and _DECIMAL.fullmatch(value):
            return int(value) if "." not in value else _read_int(float(value))
    except ValueError:
        pass
    raise _mismatch("a whole number", value)


def _read_float(value: Any) -> float:
    if type(value) in (int, float, str):
        try:
            number = float(value.replace("_", "?") if type(value) is str else value)
        except (ValueError, OverflowError):
            raise _mismatch("a number", value) from None
        if math.isfinite(number):
            return number
    raise _mismatch("a number", value)


def _read_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value in (0, 1, "0", "1"):
        return value in (1, "1")
    raise _mismatch("true or false", value)


def _read_str(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) in (int, float):
        try:
            return str(value)
        except ValueError:  # more digits than Python turns into text
            pass
    raise _mismatch("text", value)


def _read_bytes(value: Any) -> bytes:
    if type(value) is str:
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    elif type(value) is list:  # fastjson2's own way with byte arrays
        try:
            return bytes(byte & 0xFF for byte in value)
        except TypeError:
            pass
    raise _mismatch("base64 text", value)


def _mismatch(expected: str, value: Any) -> ProtocolError:
    found = repr(value[:40]) if type(value) is str else type(value).__name__
    return ProtocolError(f"{expected} expected, not {found}")


_SCALARS: dict[Any, Reader] = {
    int: _read_int,
    float: _read_float,
    bool: _read_bool,
    str: _read_str,
    bytes: _read_bytes,
    Any: lambda value: value,
}
