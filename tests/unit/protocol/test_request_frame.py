"""Requests made from a template are those of the general encoder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.errors import FrameTooLarge
from emberq.protocol.command import new_request
from emberq.protocol.frame import HEADER_SIZE_MAX_BYTES, encode_frame
from emberq.protocol.request_frame import RequestFrame

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    code=st.integers(0, 400),
    before=TEXT,
    after=TEXT,
    numbers=st.lists(NUMBERS, max_size=4),
    text=st.text(st.characters(codec="utf-8"), max_size=40),
    opaque=st.integers(0, (1 << 31) - 1),
    body=st.binary(max_size=20),
)
def test_every_frame_is_the_one_of_the_general_encoder(
    code: int,
    before: str,
    after: str,
    numbers: list[int],
    text: str,
    opaque: int,
    body: bytes,
) -> None:
    names = tuple(f"number{number}" for number in range(len(numbers)))
    fields = {"before": before, **dict.fromkeys(names, ""), "text": "", "after": after}
    frame = RequestFrame(code, fields, numbers=names, text="text")

    framed = frame.request(tuple(numbers), text, body)
    framed.opaque = opaque

    given = {**fields, **dict(zip(names, map(str, numbers), strict=True)), "text": text}
    general = new_request(code, given, body)
    general.opaque = opaque
    assert framed.head() + framed.body == encode_frame(general)
    assert framed.code == code


def test_a_header_that_no_peer_takes_is_refused() -> None:
    request = RequestFrame(310, {"i": ""}, numbers=(), text="i").request(
        (), "x" * HEADER_SIZE_MAX_BYTES, b""
    )

    with pytest.raises(FrameTooLarge):
        request.head()
