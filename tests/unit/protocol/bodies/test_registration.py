"""Registrations of every broker version, plain and packed."""

import base64
import zlib
from pathlib import Path

import pytest

from emberq.errors import ProtocolError
from emberq.model.data_version import DataVersion
from emberq.model.static_topic import StaticTopicMapping
from emberq.model.topic import TopicConfig, TopicFilterType
from emberq.protocol.bodies import registration
from emberq.protocol.bodies.registration import (
    RegisterBrokerBody,
    checksum_matches,
    decode_registration,
    encode_registration,
    registration_checksum,
)
from emberq.protocol.bodies.topics import TopicTable
from emberq.protocol.versions import V3_0_11, V4_9_7, V5_0_0, V5_5_0

GOLDEN = Path(__file__).parents[3] / "golden" / "bodies" / "registrations.tsv"
PACKED = {
    version: base64.b64decode(text)
    for version, text in (line.split("\t") for line in GOLDEN.read_text().splitlines())
}

VERSION = DataVersion(counter=3, timestamp_ms=1_700_000_000_000)
T1 = TopicConfig(name="T1", read_queue_count=4, write_queue_count=4, permission=6)
OF_4_9 = RegisterBrokerBody(topic_table=TopicTable(data_version=VERSION, topics={"T1": T1}))
OF_5_5 = RegisterBrokerBody(
    filter_servers=["10.1.1.9:7001"],
    topic_table=TopicTable(
        data_version=VERSION,
        topics={
            "%RETRY%g1": TopicConfig(name="%RETRY%g1", read_queue_count=1, write_queue_count=1),
            "T1": TopicConfig(
                name="T1",
                read_queue_count=4,
                write_queue_count=4,
                attributes={"message.type": "FIFO"},
            ),
        },
        mappings={
            "T1": StaticTopicMapping(
                broker_name="brk-a",
                current_queue_ids={0: 0, 1: 1},
                epoch=1_700_000_000_000,
                topic="T1",
                queue_count=8,
            )
        },
    ),
)


def test_a_packed_registration_of_4_9_7_is_read() -> None:
    assert decode_registration(PACKED["4.9.7"], is_compressed=True, version=V4_9_7) == OF_4_9


def test_a_packed_registration_of_5_5_0_is_read() -> None:
    body = decode_registration(PACKED["5.5.0"], is_compressed=True, version=V5_5_0)

    assert body == OF_5_5


def test_a_packed_registration_unpacks_to_the_bytes_of_5_5_0() -> None:
    packed = encode_registration(OF_5_5, is_compressed=True, version=V5_5_0)

    assert zlib.decompress(packed) == zlib.decompress(PACKED["5.5.0"])


def test_the_packed_form_for_4_9_has_five_items_per_topic_and_no_mappings() -> None:
    packed = encode_registration(OF_4_9, is_compressed=True, version=V4_9_7)

    assert packed.startswith(b"\x78\xda")
    unpacked = zlib.decompress(packed)
    assert b"T1 4 4 6 SINGLE_TAG\x00" in unpacked
    assert unpacked.endswith(b"\x00\x00\x00\x02[]")


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("version", [V3_0_11, V4_9_7, V5_0_0, V5_5_0])
def test_what_a_version_writes_it_reads_again(version: int, is_compressed: bool) -> None:
    body = OF_5_5 if version >= V5_0_0 else OF_4_9
    data = encode_registration(body, is_compressed=is_compressed, version=version)

    assert decode_registration(data, is_compressed=is_compressed, version=version) == body


def test_before_3_0_11_the_body_is_the_bare_table_and_says_nothing_of_filter_servers() -> None:
    data = encode_registration(OF_4_9, is_compressed=False, version=V3_0_11 - 1)

    body = decode_registration(data, is_compressed=False, version=V3_0_11 - 1)

    assert body.topic_table == OF_4_9.topic_table
    assert body.filter_servers is None


@pytest.mark.parametrize("data", [None, b""])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_no_body_means_an_empty_table(data: bytes | None, is_compressed: bool) -> None:
    body = decode_registration(data, is_compressed=is_compressed, version=V5_5_0)

    assert body == RegisterBrokerBody()
    assert body.topic_table.data_version == DataVersion()


def test_attributes_with_spaces_survive() -> None:
    topic = TopicConfig(name="T", attributes={"a": "b c", "d": "é"})
    table = TopicTable(topics={"T": topic}, mappings={})
    data = encode_registration(RegisterBrokerBody(topic_table=table), is_compressed=True)

    body = decode_registration(data, is_compressed=True, version=V5_5_0)

    assert body.topic_table.topics == {"T": topic}


def test_the_filter_type_is_kept() -> None:
    topic = TopicConfig(name="T", filter_type=TopicFilterType.MULTI_TAG)
    body = RegisterBrokerBody(topic_table=TopicTable(topics={"T": topic}))
    data = encode_registration(body, is_compressed=True, version=V4_9_7)

    assert decode_registration(data, is_compressed=True, version=V4_9_7) == body


def test_the_checksum_counts_the_bytes_as_sent_and_zero_means_none() -> None:
    assert registration_checksum(b"hello") == 907060870
    assert checksum_matches(b"hello", 907060870)
    assert checksum_matches(memoryview(b"hello"), 907060870)
    assert checksum_matches(b"hello", 0)
    assert checksum_matches(None, 0)
    assert not checksum_matches(b"hello", 1)


def unpacked_4_9() -> bytes:
    return zlib.decompress(PACKED["4.9.7"])


@pytest.mark.parametrize(
    "damaged",
    [
        b"no stream",
        PACKED["4.9.7"][:-6],
        zlib.compress(b""),
        zlib.compress(b"\x7f\xff\xff\xff"),
        zlib.compress(b"\xff\xff\xff\xff"),
        zlib.compress(unpacked_4_9()[:-3]),
        zlib.compress(unpacked_4_9().replace(b"T1 4 4 6 SINGLE_TAG", b"T1 4 4 x SINGLE_TAG")),
        zlib.compress(unpacked_4_9().replace(b"T1 4 4 6 SINGLE_TAG", b"T1 4 4 6 SINGLE_TAP")),
        zlib.compress(unpacked_4_9().replace(b"T1 4 4 6 SINGLE_TAG", b"T1-4-4-6-SINGLE_TAG")),
        zlib.compress(unpacked_4_9().replace(b"T1 4 4 6 SINGLE_TAG", b"\xff1 4 4 6 SINGLE_TAG")),
        zlib.compress(unpacked_4_9().replace(b"[]", b"[}")),
    ],
)
def test_a_damaged_packed_registration_is_a_protocol_error(damaged: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_registration(damaged, is_compressed=True, version=V4_9_7)


def test_a_5_x_registration_without_its_mappings_is_cut_off() -> None:
    with pytest.raises(ProtocolError, match="ends early"):
        decode_registration(PACKED["4.9.7"], is_compressed=True, version=V5_0_0)


def test_a_registration_that_unpacks_past_the_limit_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registration, "UNPACKED_SIZE_MAX_BYTES", 1000)

    with pytest.raises(ProtocolError, match="limit"):
        decode_registration(zlib.compress(bytes(100_000)), is_compressed=True, version=V4_9_7)
