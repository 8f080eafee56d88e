"""Whatever bytes arrive, the answer is a valid value or a RecordError, never anything else."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.errors import RecordError
from emberq.record.batch import iter_batch
from emberq.record.compression import decompress
from emberq.record.decode import decode_record, is_blank, iter_records, with_plain_body
from emberq.record.host import unpack_host
from emberq.record.message_id import parse_offset_id, unique_key_time_ms, visible_message_id
from emberq.record.properties import decode_properties
from emberq.record.property_crc import has_valid_property_crc
from emberq.record.system_flag import CompressionType
from tests.golden.record.vectors import OFFICIAL_4_9_7, OFFICIAL_5_5_0

pytestmark = pytest.mark.property

MUTATIONS_COUNT = 50_000  # of records and of batches each
PLAIN_SIZE_MAX = 64 * 1024

RECORDS = [
    bytes.fromhex(value)
    for vectors in (OFFICIAL_5_5_0, OFFICIAL_4_9_7)
    for name, value in vectors.items()
    if name.startswith(("v1-", "v2-", "crc-"))
]
BATCHES = [bytes.fromhex(vectors["batch"]) for vectors in (OFFICIAL_5_5_0, OFFICIAL_4_9_7)]


def read_records(content: bytes) -> None:
    """Do all that a consumer does with a pull answer."""
    is_blank(content)
    has_valid_property_crc(content)
    for record in iter_records(memoryview(content), is_crc_checked=False):
        assert isinstance(record.topic, str)
        assert record.size_bytes > len(record.body) + len(record.properties)
        decode_properties(record.properties)
        visible_message_id(record)
        with_plain_body(record, PLAIN_SIZE_MAX)
        unpack_host(record.born_host)


def read_batch(content: bytes) -> None:
    for element in iter_batch(content):
        assert len(element.body) + len(element.properties) < len(content)
        decode_properties(element.properties)


def mutate(content: bytes, random: Random) -> bytes:
    mutated = bytearray(content)
    for _ in range(random.randint(1, 4)):
        position = random.randrange(len(mutated) or 1)
        match random.randrange(4):
            case 0:
                mutated[position : position + 1] = random.randbytes(1)
            case 1:
                mutated[position : position + 4] = random.choice(
                    (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", bytes(4))
                )
            case 2:
                del mutated[position:]
            case _:
                mutated[position:position] = random.randbytes(random.randint(1, 8))
    return bytes(mutated)


@pytest.mark.parametrize(
    ("seeds", "read"),
    [
        pytest.param(RECORDS, read_records, id="records"),
        pytest.param(BATCHES, read_batch, id="batches"),
    ],
)
def test_mutated_bytes_end_in_a_value_or_a_record_error(
    seeds: list[bytes], read: Callable[[bytes], None]
) -> None:
    random = Random(20_240_501)

    for _ in range(MUTATIONS_COUNT):
        content = mutate(random.choice(seeds), random)
        try:
            read(content)
        except RecordError:
            continue
        except Exception as error:
            pytest.fail(f"{error!r} for {content.hex()}")


@given(st.binary(max_size=300), st.integers(0, 300))
def test_random_bytes_end_in_a_value_or_a_record_error(content: bytes, position: int) -> None:
    for read in (read_records, read_batch, lambda given: decode_record(given, position)):
        with suppress(RecordError):
            read(content)


@given(body=st.binary(max_size=300), kind=st.sampled_from(CompressionType))
def test_random_bodies_end_in_a_body_or_a_record_error(body: bytes, kind: CompressionType) -> None:
    with suppress(RecordError):
        assert len(decompress(body, kind, PLAIN_SIZE_MAX)) <= PLAIN_SIZE_MAX


@given(
    kind=st.sampled_from(CompressionType), position=st.integers(0, 100), byte=st.binary(max_size=3)
)
def test_mutated_bodies_end_in_a_body_or_a_record_error(
    kind: CompressionType, position: int, byte: bytes
) -> None:
    body = bytes.fromhex(OFFICIAL_5_5_0[f"body-{kind.name.lower()}"])
    mutated = body[:position] + byte + body[position + 1 :]

    with suppress(RecordError):
        assert len(decompress(mutated, kind, PLAIN_SIZE_MAX)) <= PLAIN_SIZE_MAX


@given(st.one_of(st.text(), st.text("0123456789abcdefABCDEF \n", max_size=60)))
def test_random_ids_end_in_an_id_or_a_record_error(text: str) -> None:
    for read in (parse_offset_id, lambda key: unique_key_time_ms(key, 1_700_000_000_000)):
        with suppress(RecordError):
            read(text)
