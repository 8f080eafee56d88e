import pytest

from emberq.errors import CompressionUnavailable, RecordError
from emberq.record.compression import compress
from emberq.record.decode import (
    decode_record,
    is_blank,
    iter_records,
    read_size_and_magic,
    with_plain_body,
)
from emberq.record.encode import encode_blank, encode_record
from emberq.record.host import format_host
from emberq.record.layout import MAGIC_V1, MAGIC_V2
from emberq.record.properties import decode_properties
from emberq.record.record import Record
from emberq.record.system_flag import COMPRESSED, CompressionType, with_compression
from tests.golden.record.vectors import OFFICIAL_4_9_7, OFFICIAL_4_9_8, OFFICIAL_5_5_0

RECORD_4_9_8 = bytes.fromhex(OFFICIAL_4_9_8["record"])
GOLDEN_RECORDS = [
    pytest.param(bytes.fromhex(value), name, id=f"{version}-{name}")
    for version, vectors in (("5.5.0", OFFICIAL_5_5_0), ("4.9.7", OFFICIAL_4_9_7))
    for name, value in vectors.items()
    if name.startswith(("v1-", "v2-", "crc-"))
]


def test_the_4_9_8_record_is_read_field_by_field() -> None:
    record = decode_record(RECORD_4_9_8)

    assert record.size_bytes == 122
    assert record.magic == MAGIC_V1
    assert record.body_crc == 907060870
    assert (record.queue_id, record.flag, record.system_flag) == (3, 7, 0)
    assert (record.queue_offset, record.log_offset) == (42, 1000)
    assert (record.born_at_ms, record.stored_at_ms) == (1_700_000_000_000, 1_700_000_000_123)
    assert format_host(record.born_host) == "10.0.0.1:50000"
    assert format_host(record.store_host) == "10.0.0.2:10911"
    assert (record.reconsume_times, record.prepared_offset) == (0, 0)
    assert (record.topic, record.body) == ("TopicA", b"hello")
    assert decode_properties(record.properties) == {"TAGS": "TagA", "KEYS": "k1 k2"}


@pytest.mark.parametrize(("content", "name"), GOLDEN_RECORDS)
def test_official_records_of_all_kinds_are_read(content: bytes, name: str) -> None:
    record = decode_record(content)

    assert record.size_bytes == len(content)
    assert record.magic == (MAGIC_V2 if name.startswith("v2") else MAGIC_V1)
    assert record.topic in ("TopicA", "%RETRY%" + "g" * 150)
    assert (record.body, record.reconsume_times, record.prepared_offset) == (b"hello", 2, 99)
    born = "[2001:db8::1]:50000" if "v1-ipv6" in name or "v2-ipv6" in name else "10.0.0.1:50000"
    assert format_host(record.born_host) == born
    assert format_host(record.store_host) == (
        "[fe80::2]:10911" if name.endswith("-ipv6") else "10.0.0.2:10911"
    )


def test_a_record_is_found_in_the_middle_of_a_log() -> None:
    log = b"\x00" * 5 + RECORD_4_9_8 + b"\xff" * 5

    assert decode_record(log, 5) == decode_record(RECORD_4_9_8)


def test_the_body_of_a_view_is_a_view() -> None:
    record = decode_record(memoryview(RECORD_4_9_8))

    assert isinstance(record.body, memoryview)
    assert record.body.obj is RECORD_4_9_8
    assert record == decode_record(RECORD_4_9_8)


def test_the_head_can_be_read_without_the_body() -> None:
    damaged = RECORD_4_9_8.replace(b"hello", b"jello")

    record = decode_record(damaged, is_body_read=False)

    assert record.body == b""
    assert (record.topic, record.queue_offset) == ("TopicA", 42)


def test_a_body_that_does_not_match_its_checksum_is_refused_unless_told_otherwise() -> None:
    damaged = RECORD_4_9_8.replace(b"hello", b"jello")

    with pytest.raises(RecordError, match="checksum"):
        decode_record(damaged)
    assert decode_record(damaged, is_crc_checked=False).body == b"jello"


def test_every_truncation_of_a_record_is_a_record_error() -> None:
    for size in range(len(RECORD_4_9_8)):
        with pytest.raises(RecordError, match="at 0"):
            decode_record(RECORD_4_9_8[:size])


def patched(position: int, value: bytes) -> bytes:
    return RECORD_4_9_8[:position] + value + RECORD_4_9_8[position + len(value) :]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(patched(0, b"\x00\x00\x00\x00"), id="size 0"),
        pytest.param(patched(0, b"\xff\xff\xff\xff"), id="size negative"),
        pytest.param(patched(0, b"\x00\x00\x00\x79"), id="size one too small"),
        pytest.param(patched(0, b"\x00\x00\x00\x7b") + b"\x00", id="size one too large"),
        pytest.param(patched(4, b"\xda\xa3\x20\xa8"), id="unknown magic"),
        pytest.param(patched(4, b"\xda\xa3\x20\xab"), id="version 1 read as version 2"),
        pytest.param(patched(39, b"\x10"), id="IPv6 bit without an IPv6 host"),
        pytest.param(patched(84, b"\xff\xff\xff\xff"), id="body length negative"),
        pytest.param(patched(84, b"\x7f\xff\xff\xff"), id="body length beyond the end"),
        pytest.param(patched(93, b"\xff"), id="topic length negative"),
        pytest.param(patched(93, b"\x7f"), id="topic length beyond the end"),
        pytest.param(patched(100, b"\xff\xff"), id="properties length negative"),
        pytest.param(patched(100, b"\x00\x13"), id="properties length one too small"),
        pytest.param(patched(94, b"\xff"), id="topic not UTF-8"),
        pytest.param(bytes(200), id="zeros"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_bytes_that_contradict_themselves_are_a_record_error(content: bytes) -> None:
    with pytest.raises(RecordError):
        decode_record(content, is_crc_checked=False)
    with pytest.raises(RecordError):
        decode_record(memoryview(content), is_crc_checked=False)


def test_a_pull_answer_is_read_record_by_record() -> None:
    bodies = [b"one", b"", b"three"]
    answer = b"".join(encode_record("T", body) for body in bodies)

    assert [record.body for record in iter_records(answer)] == bodies
    assert [bytes(record.body) for record in iter_records(memoryview(answer))] == bodies
    assert list(iter_records(b"")) == []


def test_the_records_before_damage_are_still_delivered() -> None:
    answer = encode_record("T", b"one") + encode_record("T", b"two")[:-1]
    delivered: list[Record] = []

    with pytest.raises(RecordError, match="at 95"):
        delivered.extend(iter_records(answer))

    assert [record.body for record in delivered] == [b"one"]


def test_a_damaged_record_still_says_how_far_to_step() -> None:
    damaged = patched(100, b"\x00\x00")

    assert read_size_and_magic(damaged) == (122, MAGIC_V1)
    with pytest.raises(RecordError, match="cut off"):
        read_size_and_magic(damaged, 116)


def test_only_a_blank_is_a_blank() -> None:
    log = RECORD_4_9_8 + encode_blank(100)

    assert is_blank(log, 122)
    assert is_blank(memoryview(log), 122)
    assert not is_blank(log, 0)
    assert not is_blank(log[:-1], 122)
    with pytest.raises(RecordError):
        decode_record(log, 122)


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_compressed_body_stays_compressed_until_asked(kind: CompressionType) -> None:
    stored = compress(b"EmberQ" * 100, kind)
    record = decode_record(encode_record("T", stored, system_flag=with_compression(0, kind)))

    plain = with_plain_body(record)

    assert record.body == stored
    assert plain.body == b"EmberQ" * 100
    assert not plain.system_flag & COMPRESSED
    assert with_plain_body(plain) is plain


def test_a_body_too_large_to_unfold_is_a_record_error() -> None:
    stored = compress(b"x" * 1000, CompressionType.ZLIB)
    record = decode_record(encode_record("T", stored, system_flag=COMPRESSED))

    with pytest.raises(RecordError, match="more than 999"):
        with_plain_body(record, size_max=999)


def test_a_missing_codec_is_still_a_record_error() -> None:
    assert issubclass(CompressionUnavailable, RecordError)
