"""The one mapper between a command's text fields and typed headers.

On the wire every header field is text. A header is a frozen struct; the wire name of a field is
its attribute in camel case unless `field(name=…)` says otherwise.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Final, TypeVar

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import FieldInfo, astuple
from msgspec.structs import fields as struct_fields

from emberq.errors import ProtocolError
from emberq.protocol.codes import EmberqCode, RequestCode

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Header(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Base of all headers.

    `code` is the request that the header belongs to, as its question or as its answer. An answer
    shared by several requests names the first of them.
    """

    code: ClassVar[RequestCode | EmberqCode]
    # Whether a number that does not parse is an error even where it may be absent: so it is in
    # the headers for which the official servers have readers of their own.
    has_strict_numbers: ClassVar[bool] = False


HeaderT = TypeVar("HeaderT", bound=Header)


def from_fields(header_type: type[HeaderT], fields: Mapping[str, str]) -> HeaderT:
    """Read a header as tolerantly as the official servers do; unknown fields are ignored.

    A boolean is true exactly when its text is "true" in any case. An optional number that does
    not parse counts as absent, unless the header's numbers are strict.

    Raises:
        ProtocolError: a required field is missing, or a required number does not parse.
    """
    booleans = _boolean_names(header_type)
    if not booleans.isdisjoint(fields):
        for name in booleans:
            # The fast path would also take "1" for true.
            if fields.get(name, "false") not in _PLAIN_BOOLEANS:
                return _read_leniently(header_type, fields)
    try:
        return convert(fields, header_type, strict=False)
    except (ValidationError, UnicodeEncodeError):  # the second from lone surrogates
        return _read_leniently(header_type, fields)


def to_fields(header: Header) -> dict[str, str]:
    """The header's fields as text; an absent value has no field."""
    fields = {}
    for name, value in zip(header.__struct_encode_fields__, astuple(header), strict=True):
        if type(value) is str:
            fields[name] = value
        elif value is True:
            fields[name] = "true"
        elif value is False:
            fields[name] = "false"
        elif value is not None:
            fields[name] = str(value)
    return fields


# For hot requests, which read their few fields themselves


def read_int32(text: str | None) -> int | None:
    """The number of a field as `from_fields` reads an optional one: None if it is absent or
    none."""
    return _read_integer(text, Int32, 9)


def read_int64(text: str | None) -> int | None:
    return _read_integer(text, Int64, 18)


def _read_integer(text: str | None, kind: Any, safe_length: int) -> int | None:
    if text is None:
        return None
    if len(text) <= safe_length and text.isascii() and text.isdigit():
        return int(text)
    try:
        return parse_integer(text, kind)
    except (ValidationError, ValueError):
        return None


_PLAIN_BOOLEANS: Final = ("true", "false")


def _parse_boolean(text: str) -> bool:
    return text.lower() == "true"


def parse_integer(text: str, kind: type[int]) -> int:
    """As the fast path does, and as Java: plus signs and leading zeros are fine.

    Raises ValueError, of which msgspec's ValidationError is one."""
    try:
        return convert(text, kind, strict=False)
    except (ValidationError, UnicodeEncodeError):
        # Python alone would also read "1_000", " 7" and digits of other scripts.
        if text.isascii() and text[text[:1] in ("+", "-") :].isdigit():
            return convert(int(text), kind)
        raise


def _parse_float(text: str) -> float:
    return convert(text, float, strict=False)


# All types a header field may have, each also as optional; another one fails at first use.
_PARSERS: Final[dict[Any, Callable[[str], Any]]] = {
    str: str,
    bool: _parse_boolean,
    Int32: partial(parse_integer, kind=Int32),
    Int64: partial(parse_integer, kind=Int64),
    float: _parse_float,
}


@cache
def _parsers(header_type: type[Header]) -> tuple[tuple[FieldInfo, Callable[[str], Any]], ...]:
    parsers = _PARSERS | {kind | None: parser for kind, parser in _PARSERS.items()}
    return tuple((field, parsers[field.type]) for field in struct_fields(header_type))


@cache
def _boolean_names(header_type: type[Header]) -> frozenset[str]:
    return frozenset(
        field.encode_name for field, parse in _parsers(header_type) if parse is _parse_boolean
    )


def _read_leniently(header_type: type[HeaderT], fields: Mapping[str, str]) -> HeaderT:
    values: dict[str, Any] = {}
    for field, parse in _parsers(header_type):
        text = fields.get(field.encode_name)
        try:
            if text is not None:
                values[field.name] = parse(text)
                continue
            trouble = "is missing"
        except (ValidationError, ValueError):
            trouble = "is not a number in range"
        if field.required or (text is not None and header_type.has_strict_numbers):
            raise ProtocolError(f"{header_type.__name__}: {field.encode_name} {trouble}")
    return header_type(**values)
