"""Turns the bytes of a body into its struct and back.

Both directions have a fast way through msgspec for what is the same in strict JSON, and a general
way for the dialect and for the liberties that Java readers take.
"""

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields

from emberq.errors import ProtocolError
from emberq.protocol.bodies.lenient import lenient_reader
from emberq.protocol.bodies.shape import (
    has_aliases,
    is_plain,
    is_readable_by_msgspec,
    is_struct,
)
from emberq.protocol.fastjson_reader import (
    JSON_SIZE_MAX_BYTES,
    NOT_STRICT_JSON,
    quote_keys,
    read_json,
)
from emberq.protocol.fastjson_references import REFERENCE_KEY
from emberq.protocol.fastjson_writer import Dialect, write_json

BodyT = TypeVar("BodyT")

_REFERENCE_KEY = REFERENCE_KEY.encode()


def decode_body(body_type: type[BodyT], data: bytes | bytearray | memoryview | None) -> BodyT:
    """Read a body; unknown members are ignored and a null counts as absent.

    Raises:
        ProtocolError: the bytes are not JSON, or not of this shape.
    """
    if not data:
        raise ProtocolError(f"no body where {_name(body_type)} is expected")
    if not isinstance(data, bytes):
        data = bytes(data)
    kind: Any = body_type
    body: BodyT
    decoder = _decoder(kind)
    if decoder is not None and len(data) <= JSON_SIZE_MAX_BYTES and _REFERENCE_KEY not in data:
        try:
            body = _decode(decoder, data)
        except NOT_STRICT_JSON:
            pass  # the general way either understands it or says what is wrong
        else:
            return body
    plain = read_json(data)
    try:
        body = lenient_reader(kind)(plain)
    except ProtocolError as error:
        raise ProtocolError(f"body is no {_name(body_type)}: {error}") from None
    return body


def _decode(decoder: "msgspec.json.Decoder[Any]", data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise  # strict JSON up to here: quotes would not help
    except msgspec.DecodeError:
        return decoder.decode(quote_keys(data))


def encode_body(body: Any, dialect: Dialect = Dialect.FASTJSON) -> bytes:
    """Write a body as official 5.5.0 servers do; `body` is a struct or a list of structs."""
    kind: Any = type(body)
    if not is_struct(kind):
        return write_json(body, dialect)
    if _is_plain(kind, dialect is Dialect.STRICT):
        return _encode_plain(body)
    # One member that msgspec cannot write need not make the others slow: a registration has ten
    # thousand topics and a table of mappings that is nearly always empty.
    members = [
        b'"%b":%b' % (name, _encode_member(is_plain_member, getattr(body, attribute), dialect))
        for name, attribute, is_plain_member in _members(kind, dialect is Dialect.STRICT)
        if getattr(body, attribute) is not None
    ]
    return b"{%b}" % b",".join(members)


def _encode_member(is_plain_member: bool, value: Any, dialect: Dialect) -> bytes:
    return _encode_plain(value) if is_plain_member else encode_body(value, dialect)


def _encode_plain(value: Any) -> bytes:
    text = msgspec.json.encode(value)
    return _without_nulls(text) if b":null" in text else text


def _without_nulls(text: bytes) -> bytes:
    """Cut absent members out of what msgspec wrote: far faster than to copy the body first.

    Before `:null` stands the name of such a member, or text that looks like one: but inside a
    string its quotes are escaped, and then no plain name lies between two of them.
    """
    kept = []
    is_comma_due = True  # False while all members of the object so far were cut out
    *pieces, rest = text.split(b":null")
    for piece in pieces:
        name_at = piece.rfind(b'"', 0, -1) + 1
        if piece[-1:] != b'"' or not piece[name_at:-1].isalnum():
            before, begins_object = piece + b":null", False
        elif piece[name_at - 2 : name_at - 1] == b"{":
            before, begins_object = piece[: name_at - 1], True
        else:
            before, begins_object = piece[: name_at - 2], False
        kept.append(before if is_comma_due else before.removeprefix(b","))
        is_comma_due = not begins_object and (is_comma_due or before != b"")
    kept.append(rest if is_comma_due else rest.removeprefix(b","))
    return b"".join(kept)


@cache
def _is_plain(body_type: Any, is_strict: bool) -> bool:
    return is_plain(body_type, Dialect.STRICT if is_strict else Dialect.FASTJSON)


@cache
def _members(body_type: Any, is_strict: bool) -> list[tuple[bytes, str, bool]]:
    """Wire name, attribute and whether msgspec can write it, of every member of a struct."""
    return [
        (member.encode_name.encode(), member.name, _is_plain(member.type, is_strict))
        for member in fields(body_type)
    ]


@cache
def _decoder(body_type: Any) -> "msgspec.json.Decoder[Any] | None":
    if not is_readable_by_msgspec(body_type) or has_aliases(body_type):
        return None
    return msgspec.json.Decoder(body_type, strict=False)


def _name(body_type: Any) -> str:
    return getattr(body_type, "__name__", str(body_type))
