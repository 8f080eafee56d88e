"""The JSON header: the exact text that Java writes, and all that peers bend it to."""

import pytest

from emberq.errors import ProtocolError
from emberq.protocol.command import Command
from emberq.protocol.header_json import decode_json_header, encode_json_header

# As the Go client writes it: its own order, empty remark, empty fields, no serializeTypeCurrentRPC.
GO_HEADER = (
    b'{"code":105,"language":"GO","version":317,"opaque":3,"flag":0,"remark":"",'
    b'"extFields":{"topic":"T1"}}'
)


def fields_of(text: bytes) -> dict[str, str] | None:
    return decode_json_header(b'{"extFields":' + text + b"}").fields


def test_keys_are_alphabetical_and_absent_values_left_out() -> None:
    assert encode_json_header(Command(code=206, opaque=1, version=401)) == (
        b'{"code":206,"flag":0,"language":"JAVA","opaque":1,'
        b'"serializeTypeCurrentRPC":"JSON","version":401}'
    )


def test_remark_and_fields_have_their_place() -> None:
    command = Command(code=1, fields={"b": "2", "a": "1"}, flag=1, remark='say "no"', version=513)

    assert encode_json_header(command) == (
        b'{"code":1,"extFields":{"b":"2","a":"1"},"flag":1,"language":"JAVA","opaque":0,'
        b'"remark":"say \\"no\\"","serializeTypeCurrentRPC":"JSON","version":513}'
    )


def test_fields_without_values_are_an_empty_object() -> None:
    assert b'"extFields":{},' in encode_json_header(Command(fields={}))


@pytest.mark.parametrize("language", ["JAVA", "NODE_JS", 'C++ "quoted"', "", 9, 99, None])
def test_every_language_survives(language: str | int | None) -> None:
    command = Command(language=language)

    assert decode_json_header(encode_json_header(command)) == command


def test_lone_surrogates_become_question_marks_instead_of_a_failure() -> None:
    command = Command(language="\ud800", remark="bad \udcff", fields={"\ud800": "\udfff", "a": "b"})

    assert decode_json_header(encode_json_header(command)) == Command(
        language="?", remark="bad ?", fields={"?": "?", "a": "b"}
    )


def test_the_go_form_is_read() -> None:
    assert decode_json_header(GO_HEADER) == Command(
        code=105, fields={"topic": "T1"}, language="GO", opaque=3, remark="", version=317
    )


def test_unknown_keys_white_space_and_order_do_not_matter() -> None:
    header = b' { "zzz" : [ {} , 1 ] , "version" : 1 ,\n"code" : 2, "extra": null } '

    assert decode_json_header(header) == Command(code=2, version=1)


def test_an_empty_object_is_a_command_of_zeros() -> None:
    assert decode_json_header(b"{}") == Command()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"1", "1"),
        (b"-5", "-5"),
        (b"12345678901234567890123", "12345678901234567890123"),
        (b"1.5", "1.5"),
        (b"true", "true"),
        (b"false", "false"),
        (b'["a",1]', '["a",1]'),
        (b'{"a": {}}', '{"a":{}}'),
    ],
)
def test_field_values_that_are_no_text_become_text(value: bytes, text: str) -> None:
    assert fields_of(b'{"a":' + value + b',"b":"c"}') == {"a": text, "b": "c"}


def test_a_field_that_is_null_is_absent() -> None:
    assert fields_of(b'{"a":null,"b":"c"}') == {"b": "c"}
    assert fields_of(b"null") is None


@pytest.mark.parametrize(
    ("value", "number"),
    [(b'"12"', 12), (b"12.0", 12), (b"null", 0), (b"true", 1), (b"-2147483648", -(2**31))],
)
def test_numbers_in_other_clothes_are_numbers(value: bytes, number: int) -> None:
    assert decode_json_header(b'{"code":' + value + b"}").code == number


@pytest.mark.parametrize("value", [b'"x"', b'""', b"[]", b"{}", b"2147483648", b"-2147483649"])
@pytest.mark.parametrize("name", [b"code", b"flag", b"opaque", b"version"])
def test_numbers_that_are_none_are_protocol_errors(name: bytes, value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_json_header(b'{"' + name + b'":' + value + b"}")


@pytest.mark.parametrize("value", [b"true", b"1.5", b"[]", b"{}", b"null"])
def test_a_language_that_is_neither_name_nor_number_is_none(value: bytes) -> None:
    assert decode_json_header(b'{"language":' + value + b"}").language is None


def test_a_remark_that_is_no_text_becomes_text() -> None:
    assert decode_json_header(b'{"remark":7}').remark == "7"
    assert decode_json_header(b'{"remark":null,"code":"1"}').remark is None


@pytest.mark.parametrize(
    "header",
    [
        b'{"remark":"\xff","extFields":{"a":"\xc3","\xfe":"b"}}',
        b'{"remark":"\xff","extFields":{"a":"\xc3","\xfe":"b"},"code":"0"}',
    ],
    ids=["well typed", "bent types"],
)
def test_bytes_that_are_not_utf_8_become_replacement_characters(header: bytes) -> None:
    assert decode_json_header(header) == Command(
        remark="\ufffd", fields={"a": "\ufffd", "\ufffd": "b"}
    )


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="array"),
        pytest.param(b'"code"', id="text"),
        pytest.param(b"{", id="torn"),
        pytest.param(b"{}x", id="trailing bytes"),
        pytest.param(b"{code:1}", id="bare key"),
        pytest.param(b"\xff\xff", id="no text at all"),
        pytest.param(b"\0" * 8, id="zeros"),
        pytest.param(b'{"extFields":[]}', id="fields as array"),
        pytest.param(b'{"extFields":"x"}', id="fields as text"),
        pytest.param(b'{"remark":"\\ud800"}', id="lone surrogate"),
        pytest.param(b'{"code":' + b"9" * 10_000 + b"}", id="ten thousand digits"),
        pytest.param(b'{"code":"' + b"9" * 10_000 + b'"}', id="ten thousand digits as text"),
        pytest.param(b'{"extFields":{"a":1e999}}', id="number without end"),
        pytest.param(b'{"z":' + b"[" * 100_000 + b"}", id="deep unknown key"),
        pytest.param(b'{"extFields":{"a":' + b'{"a":' * 100_000 + b"}", id="deep field"),
    ],
)
def test_what_is_no_header_is_a_protocol_error(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_json_header(header)


def test_a_field_nested_just_below_the_interpreters_limit_ends_well() -> None:
    for depth in range(100, 2_000, 100):
        try:
            fields = fields_of(b'{"a":' + b"[" * depth + b"]" * depth + b"}")
        except ProtocolError:
            continue
        assert fields == {"a": "[" * depth + "]" * depth}


def test_a_view_is_read_like_bytes() -> None:
    assert decode_json_header(memoryview(GO_HEADER)) == decode_json_header(GO_HEADER)
    bent = b'{"code":"1","remark":"\xff"}'
    assert decode_json_header(memoryview(bent)) == decode_json_header(bent)
