"""Whatever the fields: a header comes back as it was written, or the answer is ProtocolError."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberq.errors import ProtocolError
from emberq.protocol.ack_bits import ACK_POSITION_MAX, decode_ack_bits, encode_ack_bits
from emberq.protocol.extra_info import PopReceipt
from emberq.protocol.header_fields import Header, Int32, Int64, from_fields, to_fields
from emberq.protocol.headers.index import (
    indexed_codes,
    request_header_type,
    response_header_type,
)
from emberq.protocol.recall_handle import RecallHandle
from emberq.protocol.signature import content_to_sign, is_signature_valid, sign

pytestmark = pytest.mark.property

found = [f(code) for code in indexed_codes() for f in (request_header_type, response_header_type)]
HEADER_TYPES = sorted({t for t in found if t is not None}, key=lambda t: t.__name__)

EXAMPLES_PER_HEADER = 8  # of more than a hundred headers

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    bool: st.booleans(),
    Int32: st.integers(-(2**31), 2**31 - 1),
    Int64: st.integers(-(2**63), 2**63 - 1),
}
VALUES |= {kind | None: st.none() | values for kind, values in VALUES.items()}

# Some are nearly a value.
ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
TEXTS = ANY_TEXT | st.sampled_from(
    ["", "0", "1", "-1", "+1", "007", "1.0", "1e3", "true", "TRUE", "null", "2147483648"]
)


@pytest.mark.parametrize("header_type", HEADER_TYPES)
@settings(max_examples=EXAMPLES_PER_HEADER)
@given(data=st.data())
def test_a_header_comes_back_as_it_was_written(
    header_type: type[Header], data: st.DataObject
) -> None:
    fields = msgspec.structs.fields(header_type)
    header = header_type(**{field.name: data.draw(VALUES[field.type]) for field in fields})
    written = to_fields(header)
    assert all(type(name) is str and type(text) is str for name, text in written.items())
    assert from_fields(header_type, written) == header


@pytest.mark.parametrize("header_type", HEADER_TYPES)
@settings(max_examples=EXAMPLES_PER_HEADER)
@given(data=st.data())
def test_any_fields_make_a_header_or_a_protocol_error(
    header_type: type[Header], data: st.DataObject
) -> None:
    names = st.sampled_from((*header_type.__struct_encode_fields__, "another", "\ud800"))
    fields = data.draw(st.dictionaries(names, TEXTS))
    try:
        header = from_fields(header_type, fields)
    except ProtocolError:
        return
    # What was understood survives being written and read again.
    assert from_fields(header_type, to_fields(header)) == header


@given(positions=st.sets(st.integers(0, ACK_POSITION_MAX)))
def test_acknowledged_positions_come_back_sorted(positions: set[int]) -> None:
    assert decode_ack_bits(encode_ack_bits(positions)) == sorted(positions)


@given(text=ANY_TEXT)
def test_any_text_is_understood_or_a_protocol_error(text: str) -> None:
    for decode in (decode_ack_bits, RecallHandle.decode, PopReceipt.decode):
        try:
            decode(text)
        except ProtocolError:
            continue


@given(
    fields=st.dictionaries(ANY_TEXT.filter(lambda name: name != "Signature"), ANY_TEXT),
    body=st.binary(),
    secret=ANY_TEXT,
)
def test_what_was_signed_verifies(fields: dict[str, str], body: bytes, secret: str) -> None:
    signature = sign(content_to_sign(fields, body), secret)
    assert is_signature_valid({**fields, "Signature": signature}, body, secret)
