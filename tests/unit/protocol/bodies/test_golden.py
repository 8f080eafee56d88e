"""Every body against the bytes that official 5.5.0 and 4.9.7 write for it."""

from typing import Any

import pytest

from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.index import indexed_codes, request_body_type, response_body_type
from emberq.protocol.fastjson import Dialect, read_json
from tests.golden.bodies.captured import TYPES, captured, type_of

WITHOUT_EMPTY_FORM = {
    # We insist on some members: nobody can lock for nobody.
    "HeartbeatData",
    "LockBatchRequestBody",
    "UnlockBatchRequestBody",
    # Members of 5.x stay absent until somebody sets them: 4.9 uses the same bodies.
    "ConsumerOffsetManager",
    "RegisterBrokerBody",
    "TopicConfigAndMappingSerializeWrapper",
}


@pytest.mark.parametrize(("official", "text"), captured("5.5.0", "full"))
def test_a_body_is_written_byte_for_byte_like_5_5_0(official: str, text: str) -> None:
    body = decode_body(type_of(official), text.encode())

    assert encode_body(body).decode() == text


@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_the_strict_form_says_the_same_as_the_dialect(version: str) -> None:
    for official, text in captured(version, "full"):
        body = decode_body(type_of(official), text.encode())
        strict = encode_body(body, Dialect.STRICT)

        assert read_json(strict) == read_json(encode_body(body))
        assert decode_body(type_of(official), strict) == body


@pytest.mark.parametrize(("official", "text"), captured("4.9.7", "full"))
def test_no_member_of_4_9_7_gets_lost(official: str, text: str) -> None:
    ours = read_json(encode_body(decode_body(type_of(official), text.encode())))

    assert_contains(ours, read_json(text))


@pytest.mark.parametrize(
    ("official", "text"),
    [case for case in captured("5.5.0", "empty") if case[0] not in WITHOUT_EMPTY_FORM],
)
def test_a_fresh_object_has_the_official_defaults(official: str, text: str) -> None:
    ours = read_json(encode_body(decode_body(type_of(official), b"{}")))

    assert_contains(without_times(ours), without_times(read_json(text)))


def test_every_type_of_the_index_is_compared_with_an_official_one() -> None:
    compared = {type_of(official) for official in TYPES}

    for code in indexed_codes():
        for body_type in (request_body_type(code), response_body_type(code)):
            element = getattr(body_type, "__args__", (body_type,))[0]
            assert element is None or element in compared


def assert_contains(whole: Any, part: Any) -> None:
    if isinstance(part, dict):
        assert part.keys() <= whole.keys()
        for key, value in part.items():
            assert_contains(whole[key], value)
    elif isinstance(part, list):
        for ours, theirs in zip(whole, part, strict=True):
            assert_contains(ours, theirs)
    else:
        assert whole == part


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_times(member)
            for key, member in value.items()
            if "timestamp" not in key.lower() and "dataVersion" not in key
        }
    return value
