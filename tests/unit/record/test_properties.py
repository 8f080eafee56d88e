import pytest

from emberq.errors import RecordError
from emberq.record import property_names
from emberq.record.properties import (
    decode_properties,
    encode_properties,
    find_property,
    find_stored_property,
    format_properties,
    join_properties,
    parse_properties,
    remove_property,
)
from tests.golden.record.vectors import OFFICIAL_5_5_0


def from_hex(text: str) -> str:
    return bytes.fromhex(text).decode()


def parsed_golden(text: str) -> dict[str, str]:
    pairs = (item.split("=") for item in text.split(";") if item)
    return {from_hex(name): from_hex(value) for name, value in pairs}


GOLDEN_TEXTS = [
    (from_hex(name.removeprefix("properties-")), parsed_golden(value))
    for name, value in OFFICIAL_5_5_0.items()
    if name.startswith("properties-")
]


@pytest.mark.parametrize(("text", "expected"), GOLDEN_TEXTS)
def test_texts_are_parsed_as_officially(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(("text", "expected"), GOLDEN_TEXTS)
def test_a_look_up_agrees_with_the_official_parse(text: str, expected: dict[str, str]) -> None:
    for name in ("a", "b", "c"):
        assert find_property(text, name) == expected.get(name)


def test_an_empty_value_vanishes_and_a_second_01_stays() -> None:
    assert parse_properties("a\x01\x02b\x011\x02c\x01x\x01y") == {"b": "1", "c": "x\x01y"}


@pytest.mark.parametrize("text", ["a\x011\x02b\x012", "a\x011\x02b\x012\x02"])
def test_both_endings_are_read(text: str) -> None:
    assert parse_properties(text) == {"a": "1", "b": "2"}


def test_both_endings_can_be_written() -> None:
    properties = {"TAGS": "TagA", "KEYS": "k1 k2"}

    assert format_properties(properties) == "TAGS\x01TagA\x02KEYS\x01k1 k2\x02"
    assert format_properties(properties, is_terminated=False) == "TAGS\x01TagA\x02KEYS\x01k1 k2"
    assert format_properties({}) == format_properties({}, is_terminated=False) == ""


def test_properties_without_a_value_are_not_written() -> None:
    assert format_properties({"a": None, "b": "", "c": "1"}) == "c\x011\x02"


@pytest.mark.parametrize("properties", [{"a\x01": "1"}, {"a\x02": "1"}, {"a": "1\x02b\x012"}])
def test_a_separator_that_would_forge_a_property_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(RecordError, match="separator"):
        format_properties(properties)


def test_a_property_without_a_name_is_refused() -> None:
    with pytest.raises(RecordError, match="without a name"):
        format_properties({"": "1"})


def test_a_01_inside_a_value_is_legal() -> None:
    assert parse_properties(format_properties({"c": "x\x01y"})) == {"c": "x\x01y"}


def test_text_is_stored_as_utf_8() -> None:
    stored = encode_properties({"n": "grün 世界 😀"})

    assert stored == "n\x01grün 世界 😀\x02".encode()
    assert decode_properties(stored) == {"n": "grün 世界 😀"}


def test_stored_bytes_that_are_not_utf_8_are_replaced_not_refused() -> None:
    assert decode_properties(b"a\x01\xff\x02b\x011") == {"a": "\ufffd", "b": "1"}
    assert encode_properties({"a": "\ud800"}) == b"a\x01?\x02"


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (b"TAGS\x01A", b"A"),
        (b"TAGS\x01A\x02", b"A"),
        (b"KEYS\x01k\x02TAGS\x01A", b"A"),
        (b"KEYS\x01k\x02TAGS\x01A\x02WAIT\x01true\x02", b"A"),
        (b"TAGS\x01A\x02TAGS\x01B", b"B"),
        (b"TAGS\x01A\x02TAGS\x01\x02", b"A"),
        (b"TAGS\x01A\x02TAGS\x01", b"A"),
        (b"XTAGS\x01A\x02KEYS\x01TAGS\x01B", None),
        (b"TAGS\x01", None),
        (b"TAGS\x01\x02", None),
        (b"TAGS", None),
        (b"", None),
    ],
)
def test_one_property_is_found_in_the_stored_bytes(stored: bytes, expected: bytes | None) -> None:
    assert find_stored_property(stored, b"TAGS") == expected
    text = find_property(stored.decode(), "TAGS")
    assert (text.encode() if text is not None else None) == expected
    assert decode_properties(stored).get("TAGS") == text


def test_a_property_is_removed_wherever_it_stands() -> None:
    text = "POP_CK\x01x\x02a\x011\x02POP_CK\x01y\x02b\x012\x02"

    assert remove_property(text, "POP_CK") == "a\x011\x02b\x012\x02"
    assert remove_property(text, "CK") == text
    assert remove_property("a\x01POP_CK\x01x", "POP_CK") == "a\x01POP_CK\x01x"


def test_joined_texts_have_exactly_one_separator_between_them() -> None:
    assert join_properties(b"a\x011", b"b\x012") == b"a\x011\x02b\x012"
    assert join_properties(b"a\x011\x02", b"b\x012") == b"a\x011\x02b\x012"
    assert join_properties(b"", b"b\x012") == b"b\x012"
    assert join_properties(b"a\x011", b"") == b"a\x011"


def test_the_reserved_names_are_those_of_5_5_0() -> None:
    assert set(OFFICIAL_5_5_0["reserved-names"].split(",")) == property_names.RESERVED
