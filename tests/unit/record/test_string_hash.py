import pytest

from emberq.record.string_hash import index_hash, java_string_hash, tag_code
from tests.golden.record.vectors import OFFICIAL_5_5_0

GOLDEN_HASHES = {
    bytes.fromhex(name.removeprefix("hash-")).decode(): int(value)
    for name, value in OFFICIAL_5_5_0.items()
    if name.startswith("hash-")
}


@pytest.mark.parametrize(("text", "expected"), GOLDEN_HASHES.items())
def test_hashes_are_those_of_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("TagA", 2598919), ("TagB", 2598920), ("TopicA#k1", -1903240649)],
)
def test_known_hashes_hold(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_index_hash_is_never_negative() -> None:
    assert index_hash("TopicA#k1") == 1903240649
    assert index_hash("TopicA#k1") % 5_000_000 == 3240649
    assert index_hash("polygenelubricants") == 0
    assert index_hash("SM#T#A") == 1846512087


def test_no_tag_and_an_empty_tag_have_the_code_0() -> None:
    assert tag_code(None) == 0
    assert tag_code("") == 0


def test_a_tag_code_is_the_signed_hash_of_the_tag() -> None:
    assert tag_code("TagA") == 2598919
    assert tag_code("polygenelubricants") == -2147483648
    assert tag_code("x" * 1000) == java_string_hash("x" * 1000)


def test_lone_surrogates_are_units_like_any_other() -> None:
    assert java_string_hash("\ud83d\ude00") == java_string_hash("😀")
