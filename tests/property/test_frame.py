"""Whatever a command holds and however its frame is torn, what is read is what was written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberq.protocol.codes import SHORT_MAX, RequestCode
from emberq.protocol.command import Command, HeaderEncoding
from emberq.protocol.frame import FrameDecoder, encode_frame, parse_frame
from emberq.protocol.languages import Language

pytestmark = pytest.mark.property

LANGUAGES = list(Language.__members__)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
# The binary header cuts codes to 16 bits: the low ones of a long code mean that one there.
LONG_CODES = [int(code) for code in RequestCode if code > SHORT_MAX]
BINARY_CODE = INT16.filter(lambda code: code & 0xFFFF not in {long & 0xFFFF for long in LONG_CODES})
TEXT = st.text(max_size=30)  # without surrogates, which UTF-8 cannot hold
NOT_EMPTY = st.text(min_size=1, max_size=30)

JSON_COMMANDS = st.builds(
    Command,
    code=INT32,
    fields=st.none() | st.dictionaries(TEXT, TEXT, max_size=6),
    flag=INT32,
    language=TEXT | st.sampled_from(LANGUAGES) | st.integers(0, 2**70) | st.none(),
    opaque=INT32,
    remark=st.none() | TEXT,
    version=INT32,
    body=st.binary(max_size=100),
    encoding=st.just(HeaderEncoding.JSON),
)
BINARY_COMMANDS = st.builds(
    Command,
    code=BINARY_CODE | st.sampled_from(LONG_CODES),
    fields=st.none() | st.dictionaries(NOT_EMPTY, NOT_EMPTY, min_size=1, max_size=6),
    flag=INT32,
    language=st.sampled_from(LANGUAGES),
    opaque=INT32,
    remark=st.none() | NOT_EMPTY,
    version=INT16,
    body=st.binary(max_size=100),
    encoding=st.just(HeaderEncoding.BINARY),
)
COMMANDS = JSON_COMMANDS | BINARY_COMMANDS


@settings(deadline=None)
@given(COMMANDS)
def test_a_command_survives_its_frame(command: Command) -> None:
    assert parse_frame(encode_frame(command)) == command


@settings(deadline=None)
@given(COMMANDS)
def test_a_view_of_a_frame_reads_like_its_bytes(command: Command) -> None:
    frame = encode_frame(command)

    assert parse_frame(memoryview(frame)) == parse_frame(frame)


@settings(deadline=None)
@given(st.lists(COMMANDS, max_size=6), st.data())
def test_frames_torn_and_joined_at_any_bytes_come_out_whole_and_in_order(
    commands: list[Command], data: st.DataObject
) -> None:
    stream = b"".join(map(encode_frame, commands))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    decoder = FrameDecoder()

    read = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoder.feed(stream[start:end])
        read += list(iter(decoder.next, None))

    assert read == commands
    assert decoder.partial_size == 0


@settings(deadline=None)
@given(st.lists(COMMANDS, max_size=6), st.data())
def test_taking_only_some_commands_between_reads_loses_none(
    commands: list[Command], data: st.DataObject
) -> None:
    stream = b"".join(map(encode_frame, commands))
    decoder = FrameDecoder()

    read = []
    position = 0
    while position < len(stream):
        end = data.draw(st.integers(position + 1, len(stream)))
        decoder.feed(stream[position:end])
        position = end
        for _ in range(data.draw(st.integers(0, 2))):
            command = decoder.next()
            if command is not None:
                read.append(command)
    read += list(iter(decoder.next, None))

    assert read == commands


@settings(deadline=None)
@given(st.lists(COMMANDS, max_size=6), st.data())
def test_bodies_that_others_receive_the_rest_of_come_out_whole(
    commands: list[Command], data: st.DataObject
) -> None:
    stream = b"".join(map(encode_frame, commands))
    decoder = FrameDecoder()

    read = []
    position = 0
    while position < len(stream):
        end = data.draw(st.integers(position + 1, len(stream)))
        decoder.feed(stream[position:end])
        position = end
        read += list(iter(decoder.next, None))
        body = decoder.take_large(data.draw(st.integers(1, 40)), lambda _: True)
        whole = None
        while body is not None and whole is None:
            count = data.draw(st.integers(1, len(body.room)))
            body.room[:count] = stream[position : position + count]
            position += count
            whole = body.finish(count)
        read += [] if whole is None else [whole]

    assert read == commands
    assert decoder.partial_size == 0


@settings(deadline=None)
@given(COMMANDS, st.data())
def test_what_is_held_of_a_torn_frame_is_what_arrived_of_it(
    command: Command, data: st.DataObject
) -> None:
    frame = encode_frame(command)
    cut = data.draw(st.integers(0, len(frame) - 1))
    decoder = FrameDecoder()

    decoder.feed(frame[:cut])

    assert decoder.next() is None
    assert decoder.partial_size == cut
