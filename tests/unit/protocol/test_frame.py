"""Frames: the bytes official software writes, torn and joined in every way, and damaged ones."""

import pytest

from emberq.errors import FrameTooLarge, ProtocolError
from emberq.protocol.command import RESPONSE_BIT, Command, HeaderEncoding, answer
from emberq.protocol.frame import (
    FRAME_SIZE_MAX_BYTES,
    HEADER_SIZE_MAX_BYTES,
    PIECE_SIZE_MIN_BYTES,
    FrameDecoder,
    encode_frame,
    encode_head,
    parse_frame,
    success_frame,
)
from tests.golden.frames.vectors import (
    BINARY_REQUEST,
    BINARY_RESPONSE,
    JSON_REQUEST,
    OFFICIAL_4_9_7,
    OFFICIAL_5_5_0,
)

ROUTE_QUERY = Command(code=105, fields={"topic": "T1"}, opaque=1, version=401)
NO_ROUTE = Command(code=17, flag=RESPONSE_BIT, opaque=1, remark="no route", version=401)


def commands_of(decoder: FrameDecoder) -> list[Command]:
    return list(iter(decoder.next, None))


@pytest.mark.parametrize(
    ("frame", "command", "encoding"),
    [
        pytest.param(JSON_REQUEST, ROUTE_QUERY, HeaderEncoding.JSON, id="json request"),
        pytest.param(BINARY_REQUEST, ROUTE_QUERY, HeaderEncoding.BINARY, id="binary request"),
        pytest.param(BINARY_RESPONSE, NO_ROUTE, HeaderEncoding.BINARY, id="binary response"),
    ],
)
def test_the_described_frames_are_written_and_read_byte_for_byte(
    frame: bytes, command: Command, encoding: HeaderEncoding
) -> None:
    command.encoding = encoding

    assert encode_frame(command) == frame
    assert parse_frame(frame) == command


@pytest.mark.parametrize("name", OFFICIAL_5_5_0)
def test_what_official_5_5_0_wrote_is_written_again_byte_for_byte(name: str) -> None:
    frame = OFFICIAL_5_5_0[name]

    if name == "empty-value-rocketmq":
        # The binary header cannot tell an empty value from an absent one.
        assert parse_frame(frame).fields == {}
    else:
        assert encode_frame(parse_frame(frame)) == frame


@pytest.mark.parametrize("name", OFFICIAL_4_9_7)
def test_both_official_lines_are_read_alike(name: str) -> None:
    assert parse_frame(OFFICIAL_4_9_7[name]) == parse_frame(OFFICIAL_5_5_0[name])


def test_official_frames_mean_what_they_should() -> None:
    with_body = parse_frame(OFFICIAL_5_5_0["request-with-body-json"])
    oneway = parse_frame(OFFICIAL_5_5_0["oneway-rocketmq"])
    escapes = parse_frame(OFFICIAL_4_9_7["escapes-json"])

    assert (with_body.code, with_body.body) == (310, b"hello")
    assert with_body.fields == {"a": "pg", "b": "T1", "e": "0"}
    assert oneway.is_oneway
    assert not oneway.is_response
    assert escapes.fields == {"topic": "\"\\/\b\f\n\r\t\x01\x7f\u2028<>&'"}


def test_an_absent_header_and_an_empty_one_are_told_apart_in_json() -> None:
    assert parse_frame(OFFICIAL_5_5_0["no-fields-json"]).fields is None
    assert parse_frame(OFFICIAL_5_5_0["empty-fields-json"]).fields == {}


def test_pop_codes_survive_the_binary_header_that_cannot_hold_them() -> None:
    assert parse_frame(OFFICIAL_5_5_0["pop-rocketmq"]).code == 200050


def test_the_head_is_the_frame_without_its_body() -> None:
    command = Command(code=10, body=b"hello")

    assert encode_head(command) + b"hello" == encode_frame(command)


def test_the_type_byte_of_the_frame_decides_not_the_words_of_the_header() -> None:
    header = b'{"code":1,"serializeTypeCurrentRPC":"ROCKETMQ","body":"aGVsbG8=","encoding":1}'
    size = len(header)

    command = parse_frame(
        (4 + size + 2).to_bytes(4, "big") + size.to_bytes(4, "big") + header + b"xy"
    )

    assert command.encoding is HeaderEncoding.JSON
    assert command.body == b"xy"


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\0\0\0\4\0\0\0", id="torn prefix"),
        pytest.param(JSON_REQUEST[:-1], id="shorter than announced"),
        pytest.param(JSON_REQUEST + b"x", id="longer than announced"),
        pytest.param(b"\0\0\0\5\0\0\0\2{", id="header longer than the frame"),
        pytest.param(b"\0\0\0\6\0\xff\xff\xff{}", id="header of 16 MiB in 6 bytes"),
        pytest.param(b"\0\0\0\6\2\0\0\2{}", id="unknown encoding"),
        pytest.param(b"\0\0\0\6\xff\0\0\2{}", id="encoding 255"),
        pytest.param(b"\0\0\0\5\0\0\0\0x", id="json, body without header"),
        pytest.param(b"\0\0\0\4\0\0\0\0", id="json, nothing in it"),
        pytest.param(b"\0\0\0\4\1\0\0\0", id="binary, nothing in it"),
        pytest.param(b"\0\0\0\4\2\0\0\0", id="unknown encoding, nothing in it"),
    ],
)
def test_a_damaged_frame_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_frame(frame)


@pytest.mark.parametrize(
    ("length", "error"),
    [
        (0, ProtocolError),
        (3, ProtocolError),
        (FRAME_SIZE_MAX_BYTES - 3, FrameTooLarge),
        (0x7FFFFFFF, FrameTooLarge),
        (0x80000000, FrameTooLarge),  # negative for Java
        (0xFFFFFFFF, FrameTooLarge),
    ],
)
@pytest.mark.parametrize("is_torn", [False, True])
def test_an_impossible_length_is_refused_before_its_bytes_arrive(
    length: int, error: type[ProtocolError], is_torn: bool
) -> None:
    prefix = length.to_bytes(4, "big") + bytes(4)
    decoder = FrameDecoder()

    if is_torn:
        decoder.feed(prefix[:5])
        assert decoder.next() is None
        decoder.feed(prefix[5:])
    else:
        decoder.feed(prefix)

    with pytest.raises(error):
        decoder.next()


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    largest = Command(body=bytes(200))
    limit = len(encode_frame(largest))
    decoder = FrameDecoder(frame_size_max=limit)

    decoder.feed(encode_frame(largest))
    assert decoder.next() == largest

    decoder.feed(encode_frame(Command(body=bytes(201))))
    with pytest.raises(FrameTooLarge):
        decoder.next()


def test_frames_before_the_damage_are_still_delivered() -> None:
    decoder = FrameDecoder()
    decoder.feed(JSON_REQUEST + b"\xff" * 8)

    assert decoder.next() == parse_frame(JSON_REQUEST)
    with pytest.raises(ProtocolError):
        decoder.next()
    with pytest.raises(ProtocolError):
        decoder.next()


def test_a_frame_cut_at_every_byte_comes_out_whole() -> None:
    for frame in (JSON_REQUEST, BINARY_REQUEST, BINARY_RESPONSE):
        for cut in range(1, len(frame)):
            decoder = FrameDecoder()

            decoder.feed(frame[:cut])
            assert decoder.next() is None
            assert decoder.partial_size == cut
            decoder.feed(frame[cut:])
            assert decoder.next() == parse_frame(frame)
            assert decoder.next() is None
            assert decoder.partial_size == 0


def test_frames_byte_by_byte_come_out_whole() -> None:
    decoder = FrameDecoder()
    commands = []

    for byte in JSON_REQUEST + BINARY_REQUEST + BINARY_RESPONSE:
        decoder.feed(bytes([byte]))
        commands += commands_of(decoder)

    assert commands == [parse_frame(f) for f in (JSON_REQUEST, BINARY_REQUEST, BINARY_RESPONSE)]


def test_bytes_may_be_fed_while_commands_wait() -> None:
    decoder = FrameDecoder()

    decoder.feed(JSON_REQUEST + BINARY_REQUEST + BINARY_RESPONSE[:9])
    first = decoder.next()
    decoder.feed(BINARY_RESPONSE[9:] + JSON_REQUEST)

    assert first == parse_frame(JSON_REQUEST)
    assert [command.code for command in commands_of(decoder)] == [105, 17, 105]


def test_the_buffer_grows_with_what_arrived_not_with_what_was_announced() -> None:
    decoder = FrameDecoder()

    decoder.feed((FRAME_SIZE_MAX_BYTES - 4).to_bytes(4, "big") + bytes(20))

    assert decoder.next() is None
    assert decoder.partial_size == 24


def test_a_header_far_larger_than_any_real_one_is_refused_before_it_is_parsed() -> None:
    header = b'{"remark":"' + b"x" * HEADER_SIZE_MAX_BYTES + b'"}'
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header

    with pytest.raises(ProtocolError, match="header of"):
        parse_frame(frame)


def test_a_header_that_does_not_fit_its_length_field_is_refused() -> None:
    with pytest.raises(FrameTooLarge):
        encode_head(Command(remark="x" * (1 << 24)))


@pytest.mark.parametrize("encoding", HeaderEncoding)
@pytest.mark.parametrize("opaque", [0, 7, -1, (1 << 31) - 1])
def test_the_frame_of_a_plain_success_is_that_of_its_answer(
    opaque: int, encoding: HeaderEncoding
) -> None:
    request = Command(code=105, opaque=opaque, encoding=encoding)

    for body in (b"", b"route"):
        assert success_frame(request, body) == encode_frame(answer(request, body=body))


@pytest.mark.parametrize("step", [1, 7, 8, 9, 100, PIECE_SIZE_MIN_BYTES, 5_000, 30_000])
def test_a_large_frame_in_pieces_of_any_size_is_whole(step: int) -> None:
    body = bytes(range(256)) * 64
    stream = encode_frame(Command(code=7, body=body)) + encode_frame(Command(code=8, body=b"end"))
    decoder = FrameDecoder()
    commands = []
    for start in range(0, len(stream), step):
        decoder.feed(stream[start : start + step])
        while (command := decoder.next()) is not None:
            commands.append(command)

    assert [(command.code, command.body) for command in commands] == [(7, body), (8, b"end")]
    assert all(type(command.body) is bytes for command in commands)
    assert decoder.partial_size == 0


def test_bytes_that_come_one_by_one_are_held_together() -> None:
    frame = encode_frame(Command(code=7, body=bytes(20_000)))
    decoder = FrameDecoder()
    for number in range(len(frame) - 1):
        decoder.feed(frame[number : number + 1])
        assert decoder.next() is None

    assert decoder.partial_size == len(frame) - 1
    assert len(decoder._pieces) <= 3


def test_who_received_a_large_body_holds_it_no_more() -> None:
    frame = encode_frame(answer(Command(code=11), body=b"0123456789"))
    decoder = FrameDecoder()
    decoder.feed(frame[:-4])
    assert decoder.next() is None
    body = decoder.take_large(4, lambda _: True)
    assert body is not None

    body.room[:] = b"6789"
    command = body.finish(4)

    assert command is not None
    assert command.body == b"0123456789"
    assert (len(body.room), body.received_size) == (0, 10)


def test_a_large_request_is_not_handed_over() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_frame(Command(code=10, body=bytes(100)))[:-50])

    assert decoder.next() is None
    assert decoder.take_large(1, lambda _: True) is None
    assert decoder.partial_size > 0


def test_an_answer_that_nobody_waits_for_is_not_handed_over() -> None:
    frame = encode_frame(answer(Command(code=11, opaque=7), body=b"0123456789"))
    decoder = FrameDecoder()
    decoder.feed(frame[:-4])

    assert decoder.next() is None
    assert decoder.take_large(4, {8}.__contains__) is None
    assert decoder.take_large(4, {7}.__contains__) is not None
