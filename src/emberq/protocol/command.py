"""One request or response, as both header encodings carry it."""

from enum import IntEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from emberq.protocol.versions import CURRENT

RESPONSE_BIT = 1
ONEWAY_BIT = 2

Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]

# Both names are known to every version of the official software; this one is also true.
LANGUAGE = "PYTHON"


class HeaderEncoding(IntEnum):
    """The type byte of a frame."""

    JSON = 0
    BINARY = 1


class Command(Struct, kw_only=True, gc=False):
    """What travels in one frame.

    `fields` distinguishes None (no custom header at all) from an empty dict (a header without
    values): official answers show the difference as an absent or an empty `extFields`.
    """

    code: Int32 = 0
    fields: dict[str, str] | None = field(name="extFields", default=None)
    flag: Int32 = 0
    language: str | int | None = "JAVA"  # what a peer that does not say so is taken for
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0
    # Set from the frame, never from the header text.
    body: bytes = b""
    encoding: HeaderEncoding = HeaderEncoding.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_BIT)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_BIT)


def new_request(
    code: int,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    version: int = CURRENT,
    encoding: HeaderEncoding = HeaderEncoding.JSON,
) -> Command:
    """A request of ours; the connection that sends it gives it its opaque."""
    return Command(
        code=int(code),
        fields=fields,
        body=body,
        version=version,
        language=LANGUAGE,
        encoding=encoding,
    )


def answer(
    request: Command,
    code: int = 0,
    remark: str | None = None,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
) -> Command:
    """The response that goes back to `request`, in the header encoding it came in."""
    return Command(
        code=int(code),
        fields=fields,
        flag=RESPONSE_BIT,
        language=LANGUAGE,
        opaque=request.opaque,
        remark=remark,
        version=CURRENT,
        body=body,
        encoding=request.encoding,
    )
