"""Whatever the values: every body comes back as it was written, or the answer is ProtocolError."""

import random
import zlib
from enum import Enum
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields

from emberq.errors import ProtocolError
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.index import indexed_codes, request_body_type, response_body_type
from emberq.protocol.bodies.lenient import lenient_reader
from emberq.protocol.bodies.registration import (
    RegisterBrokerBody,
    decode_registration,
    encode_registration,
)
from emberq.protocol.bodies.shape import is_struct, without_none
from emberq.protocol.fastjson import Dialect, read_json
from emberq.protocol.versions import V4_9_7, V5_5_0
from tests.golden.bodies.captured import captured, type_of

pytestmark = pytest.mark.property

found = [f(code) for code in indexed_codes() for f in (request_body_type, response_body_type)]
BODY_TYPES = sorted((t for t in {str(t): t for t in found if t}.values()), key=str)

EXAMPLES_PER_BODY = 5  # of more than fifty bodies
SEED = 20_231_114
MUTATION_COUNT = 100_000
REPLACEMENTS = [
    b"",
    b"null",
    b'"',
    b"1",
    b"{}",
    b"[]",
    b"{",
    b",",
    b":",
    b"'",
    b"-",
    b"\\",
    b"\xff",
]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT | st.sampled_from(['":null', ',"x":null', "$ref", "0"]),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    bare = without_none(kind)
    if bare is not kind:
        return st.none() | values_of(bare)
    if get_origin(kind) is list:
        return st.lists(values_of(*get_args(kind)), max_size=2)
    if get_origin(kind) is dict:
        key, item = get_args(kind)
        # A map that holds nothing but "$ref" is taken for a reference, by official readers too.
        keys = values_of(key).filter(lambda name: name != "$ref")
        return st.dictionaries(keys, values_of(item), max_size=2)
    if is_struct(kind):
        members = {member.name: values_of(member.type) for member in fields(kind)}
        if kind is RegisterBrokerBody:
            # Only a bare table, from before 3.0.11, can say nothing of filter servers.
            members["filter_servers"] = values_of(list[str])
        return st.builds(kind, **members)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    return SCALARS[kind]


STRATEGIES = {str(body_type): values_of(body_type) for body_type in BODY_TYPES}


@pytest.mark.parametrize("body_type", BODY_TYPES, ids=str)
@settings(max_examples=EXAMPLES_PER_BODY, deadline=None)
@given(data=st.data())
def test_a_body_round_trips_in_both_dialects(body_type: Any, data: st.DataObject) -> None:
    body = data.draw(STRATEGIES[str(body_type)])

    for dialect in Dialect:
        text = encode_body(body, dialect)
        assert decode_body(body_type, text) == body
        # Both ways of reading must agree, or an old client would see another cluster.
        assert lenient_reader(body_type)(read_json(text)) == body


def test_100_000_mutated_bodies_are_bodies_or_protocol_errors() -> None:
    chance = random.Random(SEED)
    bodies = captured("5.5.0", "full") + captured("4.9.7", "full")
    for number in range(MUTATION_COUNT):
        official, text = bodies[number % len(bodies)]
        mutated = bytearray(text.encode())
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(mutated) + 1)
            mutated[at : at + chance.randint(0, 3)] = chance.choice(REPLACEMENTS)
        try:
            body = decode_body(type_of(official), mutated)
        except ProtocolError:
            continue
        encode_body(body)


@settings(deadline=None)
@given(data=st.binary(max_size=200), is_compressed=st.booleans(), version=st.integers(0, 600))
def test_any_registration_is_a_body_or_a_protocol_error(
    data: bytes, is_compressed: bool, version: int
) -> None:
    try:
        decode_registration(data, is_compressed=is_compressed, version=version)
    except ProtocolError:
        return


@settings(deadline=None)
@given(st.data())
def test_a_packed_registration_with_damaged_parts_is_a_body_or_a_protocol_error(
    data: st.DataObject,
) -> None:
    body = data.draw(STRATEGIES[str(RegisterBrokerBody)])
    version = data.draw(st.sampled_from([V4_9_7, V5_5_0]))
    parts = bytearray(
        zlib.decompress(encode_registration(body, is_compressed=True, version=version))
    )
    at = data.draw(st.integers(0, len(parts)))
    parts[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    try:
        decode_registration(zlib.compress(parts), is_compressed=True, version=version)
    except ProtocolError:
        return
