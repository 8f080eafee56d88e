"""The binary header: its narrow numbers, its lengths, and lengths that lie."""

from struct import pack

import pytest

from emberq.errors import ProtocolError
from emberq.protocol.command import Command, HeaderEncoding
from emberq.protocol.header_binary import decode_binary_header, encode_binary_header
from tests.golden.frames.vectors import BINARY_REQUEST, BINARY_RESPONSE


def header(
    *, remark: bytes = b"", entries: bytes = b"", remark_size: int = -1, entries_size: int = -1
) -> bytes:
    """A header whose two lengths may lie."""
    head = pack("!hBhii", 105, 0, 401, 1, 0)
    remark_size = len(remark) if remark_size == -1 else remark_size
    entries_size = len(entries) if entries_size == -1 else entries_size
    return head + pack("!i", remark_size) + remark + pack("!i", entries_size) + entries


def entry(key: bytes, value: bytes) -> bytes:
    return pack("!h", len(key)) + key + pack("!i", len(value)) + value


def test_fields_and_remark_survive() -> None:
    command = Command(
        code=17,
        fields={"topic": "主题", "empty": "x"},
        flag=3,
        language="GO",
        opaque=-1,
        remark="no route 🔥",
        version=513,
    )

    assert decode_binary_header(encode_binary_header(command)) == command


def test_what_is_absent_or_empty_reads_as_absent() -> None:
    command = Command(fields={"a": "", "": "b"}, remark="")

    read = decode_binary_header(encode_binary_header(command))

    assert read.fields == {}
    assert read.remark is None
    assert decode_binary_header(encode_binary_header(Command(fields={}))).fields is None


def test_the_last_of_two_equal_keys_wins() -> None:
    twice = header(entries=entry(b"a", b"1") + entry(b"b", b"2") + entry(b"a", b"3"))

    assert decode_binary_header(twice).fields == {"a": "3", "b": "2"}


@pytest.mark.parametrize("code", [200050, 200056, 200151, 105, 32767, -1])
def test_codes_survive_their_sixteen_bits(code: int) -> None:
    assert decode_binary_header(encode_binary_header(Command(code=code))).code == code


def test_language_codes_are_names_and_unknown_ones_other() -> None:
    codes = {"JAVA": 0, "NODE_JS": 13, "OTHER": 7, "KLINGON": 7, None: 7, 9: 9, 300: 44}

    assert {name: encode_binary_header(Command(language=name))[2] for name in codes} == codes
    assert decode_binary_header(encode_binary_header(Command(language=99))).language == "OTHER"


def test_bytes_that_are_not_utf_8_become_replacement_characters() -> None:
    damaged = header(remark=b"\xff", entries=entry(b"\xfe", b"\xc3"))

    assert decode_binary_header(damaged).remark == "\ufffd"
    assert decode_binary_header(damaged).fields == {"\ufffd": "\ufffd"}


def test_lone_surrogates_become_question_marks_instead_of_a_failure() -> None:
    command = Command(remark="bad \udcff", fields={"\ud800": "\udfff"})

    read = decode_binary_header(encode_binary_header(command))

    assert (read.remark, read.fields) == ("bad ?", {"?": "?"})


def test_the_longest_key_passes_and_one_byte_more_does_not() -> None:
    longest = Command(fields={"k" * 32767: "v"}, encoding=HeaderEncoding.BINARY)

    assert decode_binary_header(encode_binary_header(longest)).fields == longest.fields
    with pytest.raises(ProtocolError):
        encode_binary_header(Command(fields={"k" * 32768: "v"}))


@pytest.mark.parametrize("frame", [BINARY_REQUEST, BINARY_RESPONSE])
def test_a_header_torn_at_any_byte_is_a_protocol_error(frame: bytes) -> None:
    whole = frame[8:]

    for cut in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode_binary_header(whole[:cut])


@pytest.mark.parametrize("size", [-(2**31), -2, 2, 5, 2**31 - 1])
def test_a_length_that_lies_is_a_protocol_error(size: int) -> None:
    good = entry(b"a", b"1")
    lies = [
        header(remark_size=size),
        header(entries_size=size),
        header(entries=good + pack("!h", max(min(size, 32767), -32768)) + b"a" + pack("!i", 0)),
        header(entries=good + pack("!h", 1) + b"a" + pack("!i", size)),
    ]

    for lie in lies:
        with pytest.raises(ProtocolError):
            decode_binary_header(lie)


def test_a_field_must_end_within_the_block() -> None:
    entries = entry(b"a", b"1")
    beyond = header(entries=entries, entries_size=len(entries) - 1)

    with pytest.raises(ProtocolError):
        decode_binary_header(beyond)


def test_bytes_after_the_field_block_are_passed_over() -> None:
    assert decode_binary_header(header(entries=entry(b"a", b"1")) + b"more").fields == {"a": "1"}


def test_a_view_is_read_like_bytes() -> None:
    whole = BINARY_REQUEST[8:]

    assert decode_binary_header(memoryview(whole)) == decode_binary_header(whole)
