"""Java properties text: bodies of the configuration codes (25, 26, 318, 319, 2001) and files."""

import re
from collections.abc import Mapping

from emberq.errors import ProtocolError

# Official configurations have about 10 KiB.
PROPERTIES_SIZE_MAX_BYTES = 1024 * 1024

# A backslash hides the character after it, a line break too; only then is a line at its end.
_LOGICAL_LINE = re.compile(r"[ \t\f]*+((?:[^\\\r\n]|\\(?:\r\n|[\s\S])|\\\Z)*+)(?:\r\n|\r|\n|\Z)")
_CONTINUATION = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*+")
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*+")
_SEPARATOR = re.compile(r"[ \t\f]*+[=:]?[ \t\f]*+")
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.?))", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(data: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """Read properties with Java's rules: the last of two equal keys wins.

    Bytes count as Latin-1, as in Java, so text of other alphabets survives only as `\\uXXXX`.

    Raises:
        ProtocolError: for a `\\u` without four hexadecimal digits, the only malformed input,
            and for more text than a configuration can have.
    """
    if len(data) > PROPERTIES_SIZE_MAX_BYTES:
        raise ProtocolError(f"properties of {len(data)} bytes")
    text = data if isinstance(data, str) else bytes(data).decode("latin-1")
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None  # matches the empty text
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        properties[_unescape(key.group())] = _unescape(line[separator.end() :])
    return properties


def write_properties(properties: Mapping[str, str]) -> bytes:
    """One raw `key=value` line each, unescaped, as official servers write them."""
    return "".join(f"{key}={value}\n" for key, value in properties.items()).encode("utf-8")


def _logical_lines(text: str) -> list[str]:
    """Lines that carry a property, continuations joined; comments end where their line ends."""
    lines = []
    at = 0
    while at < len(text):
        comment = _COMMENT.match(text, at)
        if comment is not None:
            at = comment.end()
            continue
        line = _LOGICAL_LINE.match(text, at)
        assert line is not None  # every character is either plain, escaped or a line's end
        at = line.end()
        if line[1]:
            lines.append(_CONTINUATION.sub("", line[1]))
    return lines


_COMMENT = re.compile(r"[ \t\f]*+[#!][^\r\n]*+(?:\r\n|\r|\n|\Z)")


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # Escapes are UTF-16 units: two make one character, and half of one cannot be written again.
    units = _ESCAPE.sub(_unescaped, text).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")


def _unescaped(match: re.Match[str]) -> str:
    code, character = match.groups()
    if code is None:
        return _ESCAPED.get(character, character)
    if re.fullmatch("[0-9a-fA-F]{4}", code) is None:
        raise ProtocolError(f"properties with the escape {match[0]!r}")
    return chr(int(code, 16))
