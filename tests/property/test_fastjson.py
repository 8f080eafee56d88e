"""Whatever the text: both dialects read back what was written, and garbage is ProtocolError."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emberq.errors import ProtocolError
from emberq.protocol.fastjson import Dialect, read_json, write_json, write_pretty_json
from emberq.protocol.fastjson_reader import _Scanner
from emberq.protocol.fastjson_writer import java_double
from emberq.protocol.properties_text import read_properties, write_properties

pytestmark = pytest.mark.property

UNTIMED = settings(deadline=None)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXT
KEYS = TEXT.filter(lambda key: key != "$ref")
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=30,
)
# Fragments from which something close to the dialect grows.
FRAGMENTS = st.sampled_from(
    [*'{}[],:"\\-+.0', "\\u", "D83D", '{"$ref":"$', ".a", '"a"', "'", "1e9", "null", "true", " "]
)


@UNTIMED
@given(VALUES, st.sampled_from(Dialect))
def test_what_is_written_is_read_again(value: Any, dialect: Dialect) -> None:
    assert read_json(write_json(value, dialect)) == value
    assert read_json(write_pretty_json(value, dialect)) == value


@UNTIMED
@given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), SCALARS, max_size=5))
def test_integer_keys_are_read_as_their_digits_in_both_dialects(value: dict[int, Any]) -> None:
    expected = {str(key): member for key, member in value.items()}

    assert read_json(write_json(value, Dialect.FASTJSON)) == expected
    assert read_json(write_json(value, Dialect.STRICT)) == expected


@UNTIMED
@given(VALUES)
def test_the_scanner_agrees_with_the_fast_way_on_strict_json(value: Any) -> None:
    assert _Scanner(json.dumps(value)).document() == value
    assert _Scanner(json.dumps(value, ensure_ascii=False, indent=1)).document() == value


@UNTIMED
@given(FLOATS)
def test_a_java_double_reads_back_as_the_same_number(number: float) -> None:
    assert float(java_double(number)) == number


@UNTIMED
@given(st.binary() | st.lists(FRAGMENTS).map("".join).map(str.encode))
@example(b'{"a":{"$ref":"$.a.a.a"}}')
@example(b'[{"$ref":"$[0]"}]')
def test_any_bytes_are_a_value_or_a_protocol_error(data: bytes) -> None:
    try:
        value = read_json(data)
    except ProtocolError:
        return
    write_json(value)


@UNTIMED
@given(st.text())
def test_any_text_is_a_value_or_a_protocol_error(text: str) -> None:
    try:
        value = read_json(text)
    except ProtocolError:
        return
    write_json(value)


@UNTIMED
@given(st.data())
def test_a_mutated_document_is_a_value_or_a_protocol_error(data: st.DataObject) -> None:
    document = bytearray(write_json(data.draw(VALUES)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(document) - 1)))
        document[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        value = read_json(document)
    except ProtocolError:
        return
    write_json(value)


PLAIN_TEXT = st.text(st.characters(codec="ascii", exclude_characters="\\\r\n=:#! \t\f"), min_size=1)


@UNTIMED
@given(st.dictionaries(PLAIN_TEXT, PLAIN_TEXT))
def test_plain_properties_are_read_again(properties: dict[str, str]) -> None:
    assert read_properties(write_properties(properties)) == properties


@UNTIMED
@given(
    st.binary()
    | st.lists(st.sampled_from(["\\", "\n", "\r", "u", "=", " ", "#", "a"])).map(
        lambda parts: "".join(parts).encode()
    )
)
def test_any_bytes_are_properties_or_a_protocol_error(data: bytes) -> None:
    try:
        properties = read_properties(data)
    except ProtocolError:
        return
    assert all(isinstance(value, str) for value in properties.values())
