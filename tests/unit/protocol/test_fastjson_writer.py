"""The exact text of both dialects and of files."""

import base64
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.registration import RegisterBrokerBody
from emberq.protocol.fastjson import Dialect, read_json, write_json, write_pretty_json
from emberq.protocol.fastjson_writer import java_double

GOLDEN = Path(__file__).parents[2] / "golden" / "bodies"


class Colour(StrEnum):
    RED = "RED"


class Key(msgspec.Struct, frozen=True):
    name: str


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    absent: str | None = None
    colour: Colour = Colour.RED
    number: float = 1e10


@pytest.mark.parametrize(
    ("value", "fastjson", "strict"),
    [
        ({0: "a", -1: "b"}, '{0:"a",-1:"b"}', '{"0":"a","-1":"b"}'),
        ({Key("k"): 5}, '{{"name":"k"}:5}', '{"{\\"name\\":\\"k\\"}":5}'),
        ({"a": None, "b": 1}, '{"b":1}', '{"b":1}'),
        ([None, True, 1, "x", 1.0, {}, []], '[null,true,1,"x",1.0,{},[]]', None),
        (Sample(), '{"colour":"RED","number":1.0E10}', None),
        (b"\x01\x02\x03", '"AQID"', None),
        ('/é\u2028\x7f\x01\t"\\😀', '"/é\u2028\x7f\\u0001\\t\\"\\\\😀"', None),
    ],
)
def test_the_dialects_differ_only_in_keys(value: Any, fastjson: str, strict: str | None) -> None:
    assert write_json(value, Dialect.FASTJSON).decode() == fastjson
    assert write_json(value, Dialect.STRICT).decode() == (strict or fastjson)


@pytest.mark.parametrize(
    ("number", "text"),
    # As printed by fastjson2 2.0.59 on Java 17.
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (1234567.5, "1234567.5"),
        (12345678.0, "1.2345678E7"),
        (123456789.123, "1.23456789123E8"),
        (1e10, "1.0E10"),
        (1e22, "1.0E22"),
        (1e23, "1.0E23"),
        (1.5e300, "1.5E300"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.1, "0.1"),
        (0.002, "0.002"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (-3e-5, "-3.0E-5"),
        (float("nan"), "null"),
        (float("inf"), "null"),
    ],
)
def test_doubles_look_like_java_ones(number: float, text: str) -> None:
    assert java_double(number) == text


def test_files_look_like_official_ones() -> None:
    official = (GOLDEN / "pretty-5.5.0.json").read_bytes()

    assert write_pretty_json(decode_body(RegisterBrokerBody, official)) == official


def test_an_empty_array_of_a_file_has_its_empty_line() -> None:
    assert write_pretty_json({"a": [], "b": {}}) == b'{\n\t"a":[\n\t\t\n\t],\n\t"b":{}\n}'


def test_object_keys_of_a_file_are_indented_in_one_dialect_and_quoted_in_the_other() -> None:
    table = {Key("k"): 5}

    assert write_pretty_json(table) == b'{\n\t{\n\t\t"name":"k"\n\t}:5\n}'
    assert write_pretty_json(table, Dialect.STRICT) == b'{\n\t"{\\"name\\":\\"k\\"}":5\n}'


def test_bytes_read_back_from_their_base64() -> None:
    assert base64.b64decode(read_json(write_json(bytes(range(256))))) == bytes(range(256))


def test_a_value_without_json_form_is_our_mistake() -> None:
    with pytest.raises(TypeError, match=re.escape("object has no JSON form")):
        write_json(object())
