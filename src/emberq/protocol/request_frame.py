"""Requests of one shape that are sent very often: all but a few values is text made once."""

from collections.abc import Mapping
from struct import Struct as Layout
from typing import final

import msgspec
from msgspec import Struct

from emberq.errors import FrameTooLarge
from emberq.protocol.command import new_request
from emberq.protocol.frame import HEADER_SIZE_MAX_BYTES
from emberq.protocol.header_json import encode_json_header

_PREFIX = Layout("!II")
_encode_text = msgspec.json.Encoder().encode
# Names of topics, groups and brokers have no such character.
_NUMBER_MARK, _TEXT_MARK = "\0", "\0\0"
_OPAQUE_MARK = 1_987_654_321


class RequestFrame:
    """A request code and its fields, of which some are filled in later."""

    __slots__ = ("code", "template")

    def __init__(
        self, code: int, fields: Mapping[str, str], *, numbers: tuple[str, ...], text: str
    ) -> None:
        """`numbers` and `text` name the fields that change, the text behind the numbers; what
        `fields` says of them counts only for their place."""
        self.code = int(code)
        marked = {**fields, **dict.fromkeys(numbers, _NUMBER_MARK), text: _TEXT_MARK}
        request = new_request(code, marked)
        request.opaque = _OPAQUE_MARK
        self.template = (
            encode_json_header(request)
            .replace(b"%", b"%%")
            .replace(_encode_text(_TEXT_MARK), b"%b")
            .replace(_encode_text(_NUMBER_MARK), b'"%d"')
            .replace(b'"opaque":%d' % _OPAQUE_MARK, b'"opaque":%d')
        )

    def request(self, numbers: tuple[int, ...], text: str, body: bytes) -> "FramedRequest":
        """Raises UnicodeEncodeError for text that has no bytes: half of a surrogate pair."""
        return FramedRequest(self, (*numbers, _encode_text(text)), body)


@final
class FramedRequest(Struct, gc=False):
    """A request that is nearly bytes. Hooks, which look at fields, need a Command instead."""

    frame: RequestFrame
    values: tuple[object, ...]
    body: bytes
    # Given by the connection that sends it, as a Command's.
    opaque: int = 0

    @property
    def code(self) -> int:
        return self.frame.code

    def head(self) -> bytes:
        """Everything in front of the body."""
        header = self.frame.template % (*self.values, self.opaque)
        size = len(header)
        if size > HEADER_SIZE_MAX_BYTES:
            raise FrameTooLarge(f"header of {size} bytes")
        return _PREFIX.pack(4 + size + len(self.body), size) + header
