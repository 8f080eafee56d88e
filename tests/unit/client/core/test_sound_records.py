"""Damaged records are taken out of what a broker sends."""

import pytest

from emberq.client.core.sound_records import sound_records
from emberq.record.decode import iter_records
from emberq.record.encode import encode_record
from emberq.record.host import pack_host

HOSTS = {"ipv4": pack_host("10.1.2.3", 10911), "ipv6": pack_host("fe80::1", 10911)}


def record(offset: int, body: bytes = b"body", topic: str = "T", host: str = "ipv4") -> bytes:
    return encode_record(
        topic,
        body,
        b"KEYS\x01k",
        queue_id=3,
        queue_offset=offset,
        log_offset=1000 * offset,
        store_host=HOSTS[host],
        born_host=HOSTS[host],
    )


def flipped(content: bytes, wanted: bytes) -> bytes:
    at = content.index(wanted)
    return content[:at] + bytes((content[at] ^ 1,)) + content[at + 1 :]


@pytest.mark.parametrize("host", ["ipv4", "ipv6"])
@pytest.mark.parametrize("topic", ["T", "Größe", "t" * 200])
def test_sound_records_are_not_touched(host: str, topic: str) -> None:
    content = b"".join(record(offset, topic=topic, host=host) for offset in range(3))
    content += record(3, b"", topic, host)

    found, damaged = sound_records(content, 3, topic)

    assert found is content
    assert damaged == ()
    assert sound_records(b"", 3, topic) == (b"", ())


@pytest.mark.parametrize("host", ["ipv4", "ipv6"])
def test_a_record_with_a_flipped_bit_is_left_out_and_named(host: str) -> None:
    records = [record(offset, b"body %d" % offset, host=host) for offset in range(10, 20)]
    content = flipped(flipped(b"".join(records), b"body 10"), b"body 15")

    found, damaged = sound_records(content, 3, "T")

    assert damaged == (10, 15)
    assert [each.queue_offset for each in iter_records(found)] == [11, 12, 13, 14, 16, 17, 18, 19]


def test_records_of_another_topic_than_the_queue_are_sound_all_the_same() -> None:
    content = record(1, topic="origin") + record(2, topic="origin")

    assert sound_records(content, 0, "%LMQ%light") == (content, ())


@pytest.mark.parametrize("tail", [b"\0" * 100, b"no record", bytes(3)])
def test_what_is_no_record_is_left_to_whoever_decodes(tail: bytes) -> None:
    content = flipped(record(1, b"damaged"), b"damaged") + record(2) + tail

    found, damaged = sound_records(content, 3, "T")

    assert damaged == (1,)
    assert found == record(2) + tail
