"""100,000 damaged frames and bodies: each is a protocol error or a valid object, nothing else."""

import gc
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any
from zlib import compress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields as struct_fields

from emberq.errors import ProtocolError
from emberq.protocol.bodies import index as bodies
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.registration import decode_registration
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import RESPONSE_BIT, Command, HeaderEncoding
from emberq.protocol.frame import FrameDecoder, encode_frame
from emberq.protocol.header_fields import Header, from_fields
from emberq.protocol.headers import index as headers
from emberq.protocol.properties_text import read_properties
from tests.golden.bodies.captured import captured, type_of
from tests.golden.frames.vectors import OFFICIAL_4_9_7, OFFICIAL_5_5_0

pytestmark = pytest.mark.property

SEED = 20_261_116
MUTATIONS_COUNT = 100_000
# Long before the end all caches of types are filled: what grows after that would grow for ever.
WARM_UP_COUNT = 20_000
GROWTH_MAX_BLOCKS = 2_000  # of the interpreter's allocator; one kept object per mutation is 80,000
GROWTH_MAX_BYTES = 16 * 1024 * 1024  # of the peak of resident memory, large blocks included

TOKENS = (
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\xff", b"\0", b""),
    *(b"null", b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\\ud800", b"$ref", b"[[[[[[[["),
    *(b"1e999", b"9" * 40, b"-", b"true", b"NaN", b"'", b"1", b"-1", b"2147483648", b"\xc3\x28"),
)


def golden_bodies() -> dict[object, bytes]:
    return {
        str(type_of(official)): text.encode()
        for version in ("4.9.7", "5.5.0")
        for official, text in captured(version, "full")
    }


def sample_fields(header_type: type[Header] | None) -> dict[str, str] | None:
    """Values that every type of field takes."""
    if header_type is None:
        return None
    return {field.encode_name: "1" for field in struct_fields(header_type)}


def valid_commands() -> Iterator[Command]:
    """A request and an answer of every code we know, in both encodings, and official frames."""
    golden = golden_bodies()
    for code in sorted(headers.indexed_codes() | bodies.indexed_codes()):
        for is_response in (False, True):
            header_type, body_type = types_of(code, is_response)
            for encoding in HeaderEncoding:
                yield Command(
                    code=code,
                    flag=is_response * RESPONSE_BIT,
                    fields=sample_fields(header_type),
                    remark="no route" if is_response else None,
                    body=golden.get(str(body_type), b"a=1\nb=\\u0041\n"),
                    encoding=encoding,
                )
    for frame in (*OFFICIAL_4_9_7.values(), *OFFICIAL_5_5_0.values()):
        decoder = FrameDecoder()
        decoder.feed(frame)
        command = decoder.next()
        assert command is not None
        yield command


def types_of(code: int, is_response: bool) -> tuple[type[Header] | None, Any]:
    if is_response:
        return headers.response_header_type(code), bodies.response_body_type(code)
    return headers.request_header_type(code), bodies.request_body_type(code)


def mutate(content: bytes, random: Random) -> bytes:
    mutated = bytearray(content)
    for _ in range(random.randint(1, 4)):
        position = random.randrange(len(mutated) + 1)
        match random.randrange(5):
            case 0:
                mutated[position : position + 1] = random.randbytes(1)
            case 1:
                mutated[position : position + random.randrange(5)] = random.choice(TOKENS)
            case 2:
                del mutated[position : position + random.randrange(20)]
            case 3:
                mutated[position:position] = mutated[: random.randrange(40)]
            case _:
                mutated[position:position] = random.randbytes(random.randint(1, 8))
    return bytes(mutated)


def damaged_stream(frame: bytes, random: Random) -> bytes:
    """Damage to anything, or to the header or body alone in an envelope that is right."""
    header_end = 8 + int.from_bytes(frame[5:8], "big")
    header, body = frame[8:header_end], frame[header_end:]
    match random.randrange(3):
        case 0:
            return mutate(frame, random)
        case 1:
            header = mutate(header, random)
        case _:
            body = mutate(body, random)
    lengths = (4 + len(header) + len(body)).to_bytes(4, "big") + frame[4:5]
    return lengths + len(header).to_bytes(3, "big") + header + body


def read_stream(stream: bytes, torn_at: int, code: int, is_response: bool) -> int:
    """All that a peer does with what it receives; returns how many commands there were."""
    decoder = FrameDecoder()
    count = 0
    for piece in (stream[:torn_at], stream[torn_at:]):
        decoder.feed(piece)
        while (command := decoder.next()) is not None:
            assert all(type(value) is str for value in (command.fields or {}).values())
            count += 1
            read_content(command, code, is_response)
    assert decoder.partial_size <= len(stream)
    return count


def read_content(command: Command, code: int, is_response: bool) -> None:
    """Header and body as the types of `code`: the command's own code may be damaged."""
    header_type, body_type = types_of(code, is_response)
    if header_type is not None:
        with suppress(ProtocolError):
            assert isinstance(from_fields(header_type, command.fields or {}), header_type)
    with suppress(ProtocolError):
        if body_type is not None:
            decode_body(body_type, command.body)
        elif code in bodies.PROPERTIES_TEXT_CODES:
            read_properties(command.body)
    if code == RequestCode.REGISTER_BROKER:
        for body in (command.body, compress(command.body, 1)):
            with suppress(ProtocolError):
                decode_registration(body, is_compressed=body is not command.body, version=513)


def resident_peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def allocated_blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.timeout(120)
def test_damaged_frames_are_protocol_errors_or_commands_and_leave_no_memory_behind() -> None:
    random = Random(SEED)
    seeds = [
        (encode_frame(command), command.code, command.is_response) for command in valid_commands()
    ]
    commands_count = errors_count = settled_blocks = settled_bytes = 0

    for number in range(MUTATIONS_COUNT):
        if number == WARM_UP_COUNT:
            settled_blocks, settled_bytes = allocated_blocks(), resident_peak_bytes()
        frame, code, is_response = random.choice(seeds)
        stream = damaged_stream(frame, random)
        torn_at = random.randrange(len(stream) + 1)
        try:
            commands_count += read_stream(stream, torn_at, code, is_response)
        except ProtocolError:
            errors_count += 1
        except Exception as error:
            pytest.fail(f"{error!r} for mutation {number} of seed {SEED}: {stream.hex()}")

    assert allocated_blocks() - settled_blocks < GROWTH_MAX_BLOCKS
    assert resident_peak_bytes() - settled_bytes < GROWTH_MAX_BYTES
    # Both outcomes must be common, or the damage was not where it hurts.
    assert commands_count > MUTATIONS_COUNT / 4
    assert errors_count > MUTATIONS_COUNT / 10


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=4))
def test_random_bytes_are_a_protocol_error_or_wait_for_more(pieces: list[bytes]) -> None:
    decoder = FrameDecoder()

    with suppress(ProtocolError):
        for piece in pieces:
            decoder.feed(piece)
            while decoder.next() is not None:
                pass
    assert decoder.partial_size <= sum(map(len, pieces))


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(HeaderEncoding), st.binary(max_size=20))
def test_random_headers_in_a_right_envelope_are_protocol_errors_or_commands(
    header: bytes, encoding: HeaderEncoding, body: bytes
) -> None:
    decoder = FrameDecoder()
    decoder.feed(
        (4 + len(header) + len(body)).to_bytes(4, "big")
        + (encoding << 24 | len(header)).to_bytes(4, "big")
        + header
        + body
    )

    with suppress(ProtocolError):
        command = decoder.next()
        assert command is None or command.body == body
