"""Turns the bytes of a body into its struct and back.

Both directions have a fast way through msgspec for what is the same in strict JSON, and a general
way for the dialect and for the liberties that Java readers take.
"""

import re
from functools import cache
from typing import Any, TypeVar

import msgspec

from emberq.errors import ProtocolError
from emberq.protocol.bodies.lenient import lenient_reader
from emberq.protocol.bodies.shape import has_aliases, is_plain, is_readable_by_msgspec
from emberq.protocol.fastjson_reader import JSON_SIZE_MAX_BYTES, read_json
from emberq.protocol.fastjson_references import REFERENCE_KEY
from emberq.protocol.fastjson_writer import Dialect, write_json

BodyT = TypeVar("BodyT")

_REFERENCE_KEY = REFERENCE_KEY.encode()
# A comma or brace before an unescaped quote that a word follows can only begin a member: inside
# a string the quote would be escaped, and after a string comes punctuation.
_NULL_MEMBERS = re.compile(rb'(?<=\{)(?:"\w+":null,?)+|(?:,"\w+":null)+')


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
            body = decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass  # the general way either understands it or says what is wrong
        else:
            return body
    plain = read_json(data)
    try:
        body = lenient_reader(kind)(plain)
    except ProtocolError as error:
        raise ProtocolError(f"body is no {_name(body_type)}: {error}") from None
    return body


def encode_body(body: Any, dialect: Dialect = Dialect.FASTJSON) -> bytes:
    """Write a body as official 5.5.0 servers do; `body` is a struct or a list of structs."""
    kind: Any = type(body)
    if is_plain(kind, dialect):
        text = msgspec.json.encode(body)
        return _NULL_MEMBERS.sub(b"", text) if b":null" in text else text
    return write_json(body, dialect)


@cache
def _decoder(body_type: Any) -> "msgspec.json.Decoder[Any] | None":
    if not is_readable_by_msgspec(body_type) or has_aliases(body_type):
        return None
    return msgspec.json.Decoder(body_type, strict=False)


def _name(body_type: Any) -> str:
    return getattr(body_type, "__name__", str(body_type))
