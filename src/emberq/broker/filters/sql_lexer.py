"""SQL92 filter expressions as tokens, read one at a time.

The parser stops at the first token that cannot continue an expression; what follows is never
looked at, as in official brokers, where `a = 1 junk !` is the expression `a = 1`.
"""

import re
from typing import NamedTuple

from emberq.errors import FilterError

_PATTERN = re.compile(
    r"""
    (?P<skip>     [ \t\n\r\f]+ | --[^\n\r]*(?:\r\n|\n|\r) | /\*[^*]*\*+(?:[^*/][^*]*\*+)*/ )
  | (?P<float>    [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)?
                | [0-9]+[eE][+-]?[0-9]+ )
  | (?P<integer>  0 | [1-9][0-9]*[lL]? )
  | (?P<string>   '(?:''|[^'])*' )
  | (?P<word>     [A-Za-z_$][A-Za-z0-9_$]* )
  | (?P<sign>     <> | >= | <= | [=<>(),+-] )
    """,
    re.VERBOSE,
)
KEYWORDS = frozenset(
    {
        *("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"),
        *("CONTAINS", "STARTSWITH", "ENDSWITH"),
    }
)

FLOAT, INTEGER, STRING, PROPERTY, END = "float", "integer", "string", "property", "end"


class Token(NamedTuple):
    """`kind` is one of the names above, a keyword, or the sign itself."""

    kind: str
    text: str
    position: int


class Tokens:
    """Tokens with a look ahead; errors appear when the offending character is reached."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._ahead: list[Token] = []

    def peek(self, distance: int = 0) -> str:
        """The kind of the next token, or of one behind it. Raises FilterError."""
        while len(self._ahead) <= distance:
            self._ahead.append(self._read())
        return self._ahead[distance].kind

    def take(self) -> Token:
        self.peek()
        return self._ahead.pop(0)

    def expect(self, kind: str) -> Token:
        """Raises FilterError if the next token is another one."""
        token = self.take()
        if token.kind != kind:
            raise FilterError(
                f"expected {kind}, found {token.text or 'the end'} at {token.position}"
            )
        return token

    def _read(self) -> Token:
        while True:
            position = self._position
            if position == len(self._text):
                return Token(END, "", position)
            match = _PATTERN.match(self._text, position)
            if match is None:
                raise FilterError(f"unexpected {self._text[position]!r} at {position}")
            self._position = match.end()
            kind, text = match.lastgroup, match.group()
            if kind == "skip":
                continue
            if kind == "word":
                keyword = text.upper()
                return Token(keyword if keyword in KEYWORDS else PROPERTY, text, position)
            return Token(text if kind == "sign" else str(kind), text, position)
