"""Answers of one shape that are sent very often: all but the numbers is text made once."""

from struct import Struct as Layout

from emberq.protocol.command import Command, HeaderEncoding, answer
from emberq.protocol.header_binary import encode_binary_header
from emberq.protocol.header_json import encode_json_header

_PREFIX = Layout("!II")
_BINARY_BIT = 1 << 24
_JSON = HeaderEncoding.JSON
# No number that a header holds, so that it is found again in the text.
_MARK = 1_987_654_321


class AnswerFrame:
    """A response code, a remark, and fields whose values are whole numbers."""

    __slots__ = ("_code", "_names", "_remark", "_template")

    def __init__(self, code: int, remark: str | None, names: tuple[str, ...] = ()) -> None:
        self._code = code
        self._remark = remark
        self._names = names
        text = encode_json_header(
            answer(Command(opaque=_MARK), code, remark, dict.fromkeys(names, str(_MARK)))
        )
        self._template = text.replace(b"%", b"%%").replace(b"%d" % _MARK, b"%d")

    def head(self, request: Command, values: tuple[int, ...] = (), body_size: int = 0) -> bytes:
        """Everything in front of the body, in the encoding of the request. `values` are those of
        the fields, in the order of their names."""
        if request.encoding is _JSON:
            header = self._template % (*values, request.opaque)
            kind = len(header)
        else:
            fields = dict(zip(self._names, map(str, values), strict=True))
            header = encode_binary_header(answer(request, self._code, self._remark, fields))
            kind = _BINARY_BIT | len(header)
        return _PREFIX.pack(4 + len(header) + body_size, kind) + header
