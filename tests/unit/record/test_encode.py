import pytest

from emberq.errors import RecordError
from emberq.record.decode import decode_record, is_blank, read_size_and_magic
from emberq.record.encode import encode_blank, encode_record, place_record
from emberq.record.host import PackedHost, pack_host
from emberq.record.layout import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PROPERTIES_SIZE_MAX
from tests.golden.record.vectors import OFFICIAL_4_9_7, OFFICIAL_4_9_8, OFFICIAL_5_5_0

HOSTS = {
    "ipv4": (pack_host("10.0.0.1", 50000), pack_host("10.0.0.2", 10911)),
    "ipv6": (pack_host("2001:db8::1", 50000), pack_host("fe80::2", 10911)),
}
LONG_TOPIC = "%RETRY%" + "g" * 150
PROPERTIES = b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02"


def encode_golden(
    topic: str, properties: bytes, born: str, store: str, *, is_v2: bool = False
) -> bytes:
    return encode_record(
        topic,
        b"hello",
        properties,
        queue_id=3,
        flag=7,
        queue_offset=42,
        log_offset=1000,
        born_at_ms=1_700_000_000_000,
        born_host=HOSTS[born][0],
        stored_at_ms=1_700_000_000_123,
        store_host=HOSTS[store][1],
        reconsume_times=2,
        prepared_offset=99,
        is_v2=is_v2,
    )


def test_the_4_9_8_record_is_written_byte_for_byte() -> None:
    record = encode_record(
        "TopicA",
        b"hello",
        b"TAGS\x01TagA\x02KEYS\x01k1 k2",
        queue_id=3,
        flag=7,
        queue_offset=42,
        log_offset=1000,
        born_at_ms=1_700_000_000_000,
        born_host=HOSTS["ipv4"][0],
        stored_at_ms=1_700_000_000_123,
        store_host=HOSTS["ipv4"][1],
    )

    assert record.hex().upper() == OFFICIAL_4_9_8["record"]
    assert len(record) == 122


@pytest.mark.parametrize("born", ["ipv4", "ipv6"])
@pytest.mark.parametrize("store", ["ipv4", "ipv6"])
def test_version_1_records_equal_those_of_both_official_lines(born: str, store: str) -> None:
    latest = encode_golden("TopicA", PROPERTIES, born, store)
    classic = encode_golden("TopicA", b"a\x011\x02TAGS\x01TagA", born, store)

    assert latest.hex().upper() == OFFICIAL_5_5_0[f"v1-{born}-{store}"]
    assert classic.hex().upper() == OFFICIAL_4_9_7[f"v1-{born}-{store}"]


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_long_topics_get_version_2_as_officially(family: str) -> None:
    record = encode_golden(LONG_TOPIC, PROPERTIES, family, family)

    assert record.hex().upper() == OFFICIAL_5_5_0[f"v2-{family}-{family}"]


def test_version_2_can_be_asked_for_with_a_short_topic() -> None:
    record = encode_golden("TopicA", PROPERTIES, "ipv4", "ipv4", is_v2=True)

    assert record.hex().upper() == OFFICIAL_5_5_0["v2-short-topic"]


@pytest.mark.parametrize(("size", "magic"), [(127, MAGIC_V1), (128, MAGIC_V2), (255, MAGIC_V2)])
def test_the_version_follows_from_the_size_of_the_topic_in_bytes(size: int, magic: int) -> None:
    record = encode_record("t" * size, b"")

    assert read_size_and_magic(record) == (len(record), magic)


def test_a_topic_above_255_bytes_is_refused() -> None:
    with pytest.raises(RecordError, match="topic of 256 bytes"):
        encode_record("ü" * 128, b"")


def test_ipv6_bits_of_a_request_never_reach_the_record() -> None:
    ipv4, ipv6 = HOSTS["ipv4"][0], HOSTS["ipv6"][0]

    plain = encode_record("T", b"", system_flag=0x31, born_host=ipv4, store_host=ipv4)
    born = encode_record("T", b"", system_flag=0x21, born_host=ipv6, store_host=ipv4)
    store = encode_record("T", b"", system_flag=0x11, born_host=ipv4, store_host=ipv6)

    assert decode_record(plain).system_flag == 0x01
    assert decode_record(born).system_flag == 0x11
    assert decode_record(store).system_flag == 0x21


@pytest.mark.parametrize("born", ["ipv4", "ipv6"])
def test_a_record_can_be_placed_after_it_was_encoded(born: str) -> None:
    unplaced = encode_record(
        "TopicA",
        b"hello",
        PROPERTIES,
        queue_id=3,
        flag=7,
        born_at_ms=1_700_000_000_000,
        born_host=HOSTS[born][0],
        store_host=HOSTS["ipv4"][1],
        reconsume_times=2,
        prepared_offset=99,
    )
    log = bytearray(b"before" + unplaced + b"after")

    place_record(log, 6, queue_offset=42, log_offset=1000, stored_at_ms=1_700_000_000_123)

    placed = bytes.fromhex(OFFICIAL_5_5_0[f"v1-{born}-ipv4"])
    assert log == b"before" + placed + b"after"


def test_properties_may_fill_their_field_and_no_more() -> None:
    largest = b"a\x01" + b"x" * (PROPERTIES_SIZE_MAX - 2)

    assert decode_record(encode_record("T", b"", largest)).properties == largest
    with pytest.raises(RecordError, match="properties of 32768 bytes"):
        encode_record("T", b"", largest + b"x")


@pytest.mark.parametrize(
    "field",
    ["queue_id", "flag", "system_flag", "queue_offset", "log_offset", "born_at_ms", "stored_at_ms"],
)
def test_a_number_that_does_not_fit_its_field_is_a_record_error(field: str) -> None:
    with pytest.raises(RecordError, match="does not fit"):
        encode_record("T", b"", **{field: 1 << 63})  # type: ignore[arg-type]  # names vary


def test_a_host_of_another_size_is_a_record_error() -> None:
    with pytest.raises(RecordError, match="8 or 20 bytes"):
        encode_record("T", b"", born_host=PackedHost(bytes(6)))


def test_bodies_may_be_views() -> None:
    assert encode_record("T", memoryview(b"hello")) == encode_record("T", b"hello")


def test_a_lone_surrogate_in_a_topic_is_written_as_java_writes_it() -> None:
    assert decode_record(encode_record("T\ud800", b"")).topic == "T?"


def test_a_blank_says_how_much_of_the_segment_is_void() -> None:
    blank = encode_blank(4096)

    assert blank.hex().upper() == "00001000CBD43194"
    assert is_blank(blank)
    assert read_size_and_magic(blank) == (4096, MAGIC_BLANK)


def test_a_blank_needs_its_own_8_bytes() -> None:
    assert len(encode_blank(8)) == 8
    with pytest.raises(RecordError, match="7 bytes left"):
        encode_blank(7)
