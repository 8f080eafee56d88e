"""Reads JSON as Java peers write it, down to the forms that are not JSON at all.

Three ways, from fast to tolerant: strict JSON goes through msgspec as it is; text whose only
liberty is keys that are integers (`{0:"a"}`) or flat objects (`{{"queueId":0}:5}`), which is all
that official servers write, after these keys are quoted; anything else, as official readers accept
it, through a scanner: docs/formats/json-dialect.md.
"""

import math
import re
from typing import Any

import msgspec

from emberq.errors import ProtocolError
from emberq.protocol.fastjson_references import REFERENCE_KEY, resolve_references

# Frames end at 16 MiB; an unpacked registration may be larger, but not without bound.
JSON_SIZE_MAX_BYTES = 64 * 1024 * 1024
# The deepest official body has 8 levels.
DEPTH_MAX = 100
# An empty container costs 3 bytes on the wire and 64 in memory: bound what one body may cost.
CONTAINER_COUNT_MAX = 1_000_000

# What is not strict JSON costs Python time per value, about 0.2 µs where only keys need quotes
# and 2 µs in the scanner: a body must not hold up its server for longer than part of a second.
QUOTED_MARK_COUNT_MAX = 2_000_000
SCANNED_VALUE_COUNT_MAX = 50_000
SCANNED_SIZE_MAX_BYTES = 1024 * 1024

# What msgspec raises for text that is not strict JSON, or not of the asked type.
NOT_STRICT_JSON = (msgspec.MsgspecError, UnicodeError, RecursionError)

# Strings are matched to be passed over, also one that does not end: to look for its end again
# from every quote in it would take quadratic time.
_LOOSE_KEY = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
    rb"|([{,][ \t\r\n]*+)"
    rb'(?:(-?[0-9]++)|(\{(?:[^{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+\}))(?=[ \t\r\n]*+:)',
    re.DOTALL,
)
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"' + r"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"
_SPACE = re.compile(r"[ \t\r\n]*+")
_VALUE = re.compile(
    rf"(?P<string>{_STRING})"
    r"|(?P<number>[+-]?[0-9]++(?:\.[0-9]*+)?+(?:[eE][+-]?[0-9]++)?+)"
    r"|(?P<open>[{\[])"
    r"|(?P<word>true|false|null)",
    re.DOTALL,
)
_KEY = re.compile(
    rf"(?:(?P<string>{_STRING})|(?P<integer>-?[0-9]++))[ \t\r\n]*+:[ \t\r\n]*+", re.DOTALL
)
_COLON = re.compile(r"[ \t\r\n]*+:[ \t\r\n]*+")
_COMMA_OR_END = re.compile(r"[ \t\r\n]*+([,\]}])[ \t\r\n]*+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED |= {itself: itself for itself in "\"'/\\"} | {
    digit: chr(int(digit)) for digit in "01234567"
}
_WORDS = {"true": True, "false": False, "null": None}


def read_json(data: bytes | bytearray | memoryview | str) -> Any:
    """Return plain objects. All keys are `str`: an integer key is its digits, an object key its
    compact JSON text, as if the peer had quoted it.

    Raises:
        ProtocolError: for anything that is not JSON in either form or passes a limit.
    """
    text = data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)
    _check_size(text)
    try:
        value = _decode(text)
    except NOT_STRICT_JSON:
        value = _scan(text)
    else:
        _check_depth(value, text)
    if REFERENCE_KEY.encode() in text:
        value = resolve_references(value, depth_max=DEPTH_MAX)
    return value


def quote_keys(data: bytes) -> bytes:
    """Make strict JSON of text whose only liberty is keys that are integers or flat objects.

    Raises:
        msgspec.DecodeError: an object that is a key is not JSON.
        ProtocolError: the text is larger than this way may take.
    """
    if data.count(b'"') + data.count(b":") > QUOTED_MARK_COUNT_MAX:
        raise ProtocolError(f"JSON with more than {QUOTED_MARK_COUNT_MAX} strings and members")
    return _LOOSE_KEY.sub(_quote_key, data)


def _quote_key(match: re.Match[bytes]) -> bytes:
    before, integer, object_text = match.groups()
    if before is None:
        return match[0]
    if integer is not None:
        return b'%b"%b"' % (before, integer)
    compact = msgspec.json.encode(msgspec.json.decode(object_text))
    return before + msgspec.json.encode(compact.decode())


def _decode(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except NOT_STRICT_JSON:
        return msgspec.json.decode(quote_keys(text))


def _check_size(text: bytes) -> None:
    if len(text) > JSON_SIZE_MAX_BYTES:
        raise ProtocolError(f"JSON of {len(text)} bytes, at most {JSON_SIZE_MAX_BYTES} are read")
    if _count_containers(text) > CONTAINER_COUNT_MAX:
        raise ProtocolError(f"JSON with more than {CONTAINER_COUNT_MAX} objects and arrays")


def _count_containers(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _check_depth(value: Any, text: bytes) -> None:
    """msgspec follows nesting down to the interpreter's own limit, and we recurse later."""
    if _count_containers(text) <= DEPTH_MAX:
        return
    level = [value] if type(value) in (dict, list) else []
    for _ in range(DEPTH_MAX):
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) in (dict, list)
        ]
        if not level:
            return
    raise ProtocolError(f"JSON nested deeper than {DEPTH_MAX} levels")


def _scan(text: bytes) -> Any:
    if len(text) > SCANNED_SIZE_MAX_BYTES:
        raise ProtocolError(f"JSON of {len(text)} bytes is not strict")
    if text.count(b",") + text.count(b":") > SCANNED_VALUE_COUNT_MAX:
        raise ProtocolError(f"JSON with more than {SCANNED_VALUE_COUNT_MAX} values is not strict")
    try:
        return _Scanner(text.decode("utf-8")).document()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"JSON is not UTF-8: {error.reason} at byte {error.start}") from None


class _Scanner:
    """Recursive descent over one text; `_at` is the next unread character."""

    __slots__ = ("_at", "_is_in_key", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._is_in_key = False

    def document(self) -> Any:
        self._skip(_SPACE)
        value = self._value(0)
        self._skip(_SPACE)
        if self._at != len(self._text):
            raise self._unexpected("after the end")
        return value

    def _value(self, depth: int) -> Any:
        match = _VALUE.match(self._text, self._at)
        if match is None:
            raise self._unexpected("instead of a value")
        self._at = match.end()
        token = match.group()
        kind = match.lastgroup
        if kind == "string":
            return _unquote(token)
        if kind == "number":
            return _number(token)
        if kind == "word":
            return _WORDS[token]
        if depth >= DEPTH_MAX:
            raise ProtocolError(f"JSON nested deeper than {DEPTH_MAX} levels")
        self._skip(_SPACE)
        return self._object(depth + 1) if token == "{" else self._array(depth + 1)

    def _array(self, depth: int) -> list[Any]:
        values: list[Any] = []
        if self._closes("]"):
            return values
        while True:
            values.append(self._value(depth))
            if self._ends("]"):
                return values

    def _object(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if self._closes("}"):
            return members
        while True:
            key = self._key(depth)
            members[key] = self._value(depth)
            if self._ends("}"):
                return members

    def _key(self, depth: int) -> str:
        match = _KEY.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
            quoted = match["string"]
            return match["integer"] if quoted is None else _unquote(quoted)
        # Keys within keys would be quoted twice, four times, eight times: text without bound.
        if self._is_in_key or self._text[self._at : self._at + 1] != "{":
            raise self._unexpected("instead of a key")
        self._is_in_key = True
        key = self._value(depth)
        self._is_in_key = False
        colon = _COLON.match(self._text, self._at)
        if colon is None:
            raise self._unexpected("instead of ':'")
        self._at = colon.end()
        return msgspec.json.encode(key).decode("utf-8")

    def _ends(self, bracket: str) -> bool:
        """Read the comma or bracket after an element; a trailing comma counts as the end."""
        match = _COMMA_OR_END.match(self._text, self._at)
        if match is None or match[1] not in ("," + bracket):
            raise self._unexpected(f"instead of ',' or '{bracket}'")
        # The space after the outermost bracket belongs to the document; skipping it is harmless.
        self._at = match.end()
        return match[1] == bracket or self._closes(bracket)

    def _closes(self, bracket: str) -> bool:
        if self._text[self._at : self._at + 1] != bracket:
            return False
        self._at += 1
        return True

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()

    def _unexpected(self, where: str) -> ProtocolError:
        found = repr(self._text[self._at : self._at + 20]) if self._at < len(self._text) else "end"
        return ProtocolError(f"JSON has {found} {where} at character {self._at}")


def _number(token: str) -> int | float:
    try:
        number = float(token) if any(mark in token for mark in ".eE") else int(token)
    except ValueError:
        raise ProtocolError(f"JSON number of {len(token)} digits") from None
    if isinstance(number, float) and not math.isfinite(number):
        raise ProtocolError("JSON number is too large")
    return number


def _unquote(token: str) -> str:
    text = token[1:-1]
    if "\\" not in text:
        return text
    # Pairs of surrogates are escaped one by one: join pairs, replace what stays alone.
    text = _ESCAPE.sub(_unescape, text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is not None:
        return chr(int(code, 16))
    try:
        return _ESCAPED[match[3]]
    except KeyError:
        raise ProtocolError(f"JSON string with the escape {match[0]!r}") from None
