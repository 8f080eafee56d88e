"""Frames made from a template are those of the general encoder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.protocol.answer_frame import AnswerFrame
from emberq.protocol.command import Command, HeaderEncoding, answer
from emberq.protocol.frame import encode_frame

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    code=st.integers(0, 300),
    remark=st.none() | st.text(max_size=20),
    values=st.lists(INTEGERS, max_size=4),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    body=st.binary(max_size=20),
    encoding=st.sampled_from(HeaderEncoding),
)
def test_every_frame_is_the_one_of_the_general_encoder(
    code: int,
    remark: str | None,
    values: list[int],
    opaque: int,
    body: bytes,
    encoding: HeaderEncoding,
) -> None:
    request = Command(opaque=opaque, encoding=encoding)
    names = tuple(f"name{number}" for number in range(len(values)))

    head = AnswerFrame(code, remark, names).head(request, tuple(values), len(body))

    fields = dict(zip(names, map(str, values), strict=True))
    assert head + body == encode_frame(answer(request, code, remark, fields, body))


def test_the_number_of_values_must_be_right() -> None:
    frame = AnswerFrame(0, None, ("a", "b"))

    with pytest.raises((TypeError, ValueError)):
        frame.head(Command(), (1,))
