"""What the reader accepts beyond JSON, and what it refuses."""

from typing import Any

import pytest

from emberq.errors import ProtocolError
from emberq.protocol import fastjson_reader
from emberq.protocol.fastjson import read_json
from emberq.protocol.fastjson_reader import (
    CONTAINER_COUNT_MAX,
    DEPTH_MAX,
    QUOTED_MARK_COUNT_MAX,
    SCANNED_SIZE_MAX_BYTES,
    SCANNED_VALUE_COUNT_MAX,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        ('{-5 : {"x":1}}', {"-5": {"x": 1}}),
        ('{{"b":"x","q":0}:5,{"b":"x","q":1}:6}', {'{"b":"x","q":0}': 5, '{"b":"x","q":1}': 6}),
        ('{ { "b" : "x" } : 5 }', {'{"b":"x"}': 5}),
        ("{'a':'it\\'s'}", {"a": "it's"}),
        ('{"a":1,}', {"a": 1}),
        ("[1,2,]", [1, 2]),
        ("[ ]", []),
        ("{ }", {}),
        ('{"a":01,"b":+1,"c":1.,"d":1E+2}', {"a": 1, "b": 1, "c": 1.0, "d": 100.0}),
        ('{"a":"\\x41\\0\\v"}', {"a": "A\0\v"}),
        ('{"a":"tab\tline\n"}', {"a": "tab\tline\n"}),
        (" \r\n{0 :\t[ true , false , null ] } ", {"0": [True, False, None]}),
        ('{0:"\\uD83D\\uDE00"}', {"0": "😀"}),
        ('{0:"\\u00E9é\\/"}', {"0": "éé/"}),
        ("5", 5),
        ("null", None),
    ],
)
def test_reads_what_official_readers_accept(text: str, value: Any) -> None:
    assert read_json(text) == value
    assert read_json(text.encode()) == value
    assert read_json(memoryview(text.encode())) == value


def test_an_object_key_reads_like_its_quoted_form() -> None:
    raw = read_json(b'{{"brokerName":"b","queueId":0,"topic":"T"}:5}')
    quoted = read_json(rb'{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}":5}')

    assert raw == quoted


def test_half_a_surrogate_pair_is_replaced_so_that_it_can_be_written_again() -> None:
    text = read_json(b'["\\uD800x"]')[0]

    assert text == "\ufffdx"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":1]',
        "[1}",
        '{"a":1 "b":2}',
        '{"a":1}x',
        "{a:1}",
        "{true:1}",
        "{[1]:2}",
        "{,}",
        "[,]",
        '{"a":tru}',
        '{"a":NaN}',
        '{"a":-}',
        '{"a":"abc}',
        '{"a":"\\q"}',
        '{"a":"\\u12"}',
        '{"a":1e999}',
        "1" * 5000,
        '{{"a":1}5}',
    ],
)
def test_garbage_is_a_protocol_error(text: str) -> None:
    with pytest.raises(ProtocolError):
        read_json(text)


def test_bytes_that_are_not_utf8_are_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="UTF-8"):
        read_json(b'{"a":"\xff"}')


@pytest.mark.parametrize("opening", ["[", '{"a":', "{0:", "{{"])
def test_nesting_without_end_is_refused_before_the_stack_is(opening: str) -> None:
    with pytest.raises(ProtocolError):
        read_json(opening * 200_000)


@pytest.mark.parametrize(("strict", "loose"), [("[", "]"), ('{"a":', "}"), ("{0:", "}")])
def test_the_depth_limit_is_the_same_on_both_ways(strict: str, loose: str) -> None:
    deepest = strict * (DEPTH_MAX - 1) + "[]" + loose * (DEPTH_MAX - 1)
    read_json(deepest)

    with pytest.raises(ProtocolError, match="deeper"):
        read_json(strict + deepest + loose)


def test_keys_within_keys_are_refused_because_their_text_would_double_each_time() -> None:
    with pytest.raises(ProtocolError):
        read_json('{{{"a":1}:1}:1}')


def test_more_containers_than_the_limit_are_refused() -> None:
    with pytest.raises(ProtocolError, match="objects and arrays"):
        read_json(b"[" + b"[]," * CONTAINER_COUNT_MAX + b"1]")


def test_the_scanner_takes_no_more_values_than_its_limit() -> None:
    values = b"1," * (SCANNED_VALUE_COUNT_MAX - 1)
    read_json(b"[" + values + b"1,]")

    with pytest.raises(ProtocolError, match="not strict"):
        read_json(b"[" + values + b"1,1,]")


def test_the_scanner_takes_no_more_bytes_than_its_limit() -> None:
    text = b"'" + b"a" * (SCANNED_SIZE_MAX_BYTES - 2) + b"'"
    read_json(text)

    with pytest.raises(ProtocolError, match="not strict"):
        read_json(text + b" ")


def test_keys_are_quoted_in_no_larger_text_than_the_limit() -> None:
    members = b"0:1," * (QUOTED_MARK_COUNT_MAX + 1)

    with pytest.raises(ProtocolError, match="strings and members"):
        read_json(b"{" + members + b"0:1}")


def test_a_table_of_the_official_form_does_not_need_the_scanner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fastjson_reader, "SCANNED_VALUE_COUNT_MAX", 0)

    table = read_json(
        b'{"a,5:":{{"brokerName":"b{}:","queueId":0,"topic":"T"}:{"x":1},'
        b'\n\t7 :[{"y":{}},{"y":1}]}}'
    )

    assert table == {
        "a,5:": {
            '{"brokerName":"b{}:","queueId":0,"topic":"T"}': {"x": 1},
            "7": [{"y": {}}, {"y": 1}],
        }
    }


def test_more_bytes_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastjson_reader, "JSON_SIZE_MAX_BYTES", 10)

    read_json(b'"12345678"')
    with pytest.raises(ProtocolError, match="at most 10"):
        read_json(b'"123456789"')
