"""The one mapper between a command's text fields and typed headers.

On the wire every header field is text. A header is a frozen struct; the wire name of a field is
its attribute in camel case unless `field(name=…)` says otherwise.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Final, TypeVar

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import FieldInfo, astuple
from msgspec.structs import fields as struct_fields

from emberq.errors import ProtocolError
from emberq.protocol.codes import RequestCode

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

Int32 = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]


class Header(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Base of all headers.

    `code` is the request that the header belongs to, as its question or as its answer. An answer
    shared by several requests names the first of them.
    """

    code: ClassVar[RequestCode]


HeaderT = TypeVar("HeaderT", bound=Header)


def from_fields(header_type: type[HeaderT], fields: Mapping[str, str]) -> HeaderT:
    """Read a header as tolerantly as the official servers do; unknown fields are ignored.

    A boolean is true exactly when its text is "true" in any case. An optional number that does
    not parse counts as absent.

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
    except ValidationError:
        return _read_leniently(header_type, fields)


def to_fields(header: Header) -> dict[str, str]:
    """The header's fields as text; an absent value has no field."""
    return {
        name: value if type(value) is str else _text(value)
        for name, value in zip(header.__struct_encode_fields__, astuple(header), strict=True)
        if value is not None
    }


def _text(value: object) -> str:
    if value is True:
        return "true"
    return "false" if value is False else str(value)


_PLAIN_BOOLEANS: Final = ("true", "false")


def _parse_boolean(text: str) -> bool:
    return text.lower() == "true"


def _parse_integer(text: str, lowest: int, highest: int) -> int:
    # Python alone would also read "1_000", " 7" and digits of other scripts.
    if not (text.isascii() and text[text[:1] in ("+", "-") :].isdigit()):
        raise ValueError(text)
    number = int(text)
    if not lowest <= number <= highest:
        raise ValueError(text)
    return number


def _parse_int32(text: str) -> int:
    return _parse_integer(text, INT32_MIN, INT32_MAX)


def _parse_int64(text: str) -> int:
    return _parse_integer(text, INT64_MIN, INT64_MAX)


# All types a header field may have, each also as optional; another one fails at first use.
_PARSERS: Final[dict[Any, Callable[[str], Any]]] = {
    str: str,
    bool: _parse_boolean,
    Int32: _parse_int32,
    Int64: _parse_int64,
    float: float,
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
        except ValueError:
            trouble = "is not a number in range"
        if field.required:
            raise ProtocolError(f"{header_type.__name__}: {field.encode_name} {trouble}")
    return header_type(**values)
