"""A batch as it comes from a client becomes the same records, entries and keys as singles would."""

from pathlib import Path
from typing import Any

import pytest

from emberq.errors import RecordError
from emberq.kernel.batch import Exploded, explode_rare_batch
from emberq.record.batch import encode_batch_element
from emberq.record.decode import iter_records
from emberq.record.encode import topic_part
from emberq.record.host import PackedHost, pack_host
from emberq.record.string_hash import index_hash, tag_code
from emberq.store.consume_queue import ENTRY
from emberq.store.results import PutStatus
from tests.support.stores import HOST, HOST_IPV6, TOPIC, opened, read_all
from tests.support.twins import both_twins

BORN = pack_host("10.9.8.7", 4321)
# Queue id, queue offset, log offset, system flag, and what else the request says of all messages.
AROUND: Any = (3, 17, 1_000, 0, 55, BORN, 66, HOST, 2)

ELEMENTS = (
    encode_batch_element(b"first", b"UNIQ_KEY\x01U1\x02TAGS\x01A\x02KEYS\x01k1  k2\x02", 9),
    encode_batch_element(b"", b""),
    encode_batch_element(b"third", b"TAGS\x01B\x02TAGS\x01\x02KEYS\x01\xff\x02"),
)
CONTENT = b"".join(ELEMENTS)
BORDERS = {len(ELEMENTS[0]), len(ELEMENTS[0] + ELEMENTS[1])}


def exploded(twin: Any, content: bytes) -> Exploded:
    exploded: Exploded = twin.explode_batch(content, TOPIC, topic_part(TOPIC), *AROUND)
    return exploded


@both_twins
def test_each_message_becomes_a_record_at_the_next_offsets(twin: Any) -> None:
    records, log_offsets, _, _, _ = exploded(twin, CONTENT)
    decoded = list(iter_records(records))

    assert [record.body for record in decoded] == [b"first", b"", b"third"]
    assert [record.flag for record in decoded] == [9, 0, 0]
    assert [record.queue_offset for record in decoded] == [17, 18, 19]
    assert [record.log_offset for record in decoded] == log_offsets
    assert log_offsets[0] == 1_000
    assert log_offsets[2] == log_offsets[1] + decoded[1].size_bytes
    first = decoded[0]
    assert (first.topic, first.queue_id, first.born_at_ms) == (TOPIC, 3, 55)
    assert (first.stored_at_ms, first.reconsume_times, first.prepared_offset) == (66, 2, 0)
    assert (first.born_host, first.store_host) == (BORN, HOST)
    assert first.properties == b"UNIQ_KEY\x01U1\x02TAGS\x01A\x02KEYS\x01k1  k2\x02"


@both_twins
def test_queue_entries_name_offset_size_and_tag(twin: Any) -> None:
    records, log_offsets, entries, _, _ = exploded(twin, CONTENT)
    sizes = [record.size_bytes for record in iter_records(records)]
    codes = [tag_code("A"), 0, tag_code("B")]

    assert list(ENTRY.iter_unpack(entries)) == list(zip(log_offsets, sizes, codes, strict=True))


@both_twins
def test_keys_are_hashed_in_the_order_of_the_index(twin: Any) -> None:
    _, log_offsets, _, hashes, owners = exploded(twin, CONTENT)
    first = [index_hash(f"{TOPIC}#{key}") for key in ("U1", "k1", "k2", "T#A")]
    third = [index_hash(f"{TOPIC}#{key}") for key in ("�", "T#B")]

    assert hashes == first + third
    assert owners == [log_offsets[0]] * 4 + [log_offsets[2]] * 2


@both_twins
def test_the_rare_way_leads_to_the_same(twin: Any) -> None:
    assert explode_rare_batch(CONTENT, TOPIC, *AROUND) == exploded(twin, CONTENT)


@both_twins
@pytest.mark.parametrize("size", set(range(1, len(CONTENT))) - BORDERS)
def test_a_batch_that_is_cut_off_is_refused(twin: Any, size: int) -> None:
    with pytest.raises(RecordError):
        exploded(twin, CONTENT[:size])


@both_twins
@pytest.mark.parametrize("at", [16, 25])
def test_negative_lengths_are_refused(twin: Any, at: int) -> None:
    content = bytearray(encode_batch_element(b"hello", b"TAGS\x01A\x02"))
    content[at] = 0x80

    with pytest.raises(RecordError):
        exploded(twin, bytes(content))


@both_twins
def test_the_total_size_of_a_message_is_not_looked_at(twin: Any) -> None:
    content = bytearray(encode_batch_element(b"hello"))
    content[:4] = b"\x7f\xff\xff\xff"

    assert exploded(twin, bytes(content)) == exploded(twin, encode_batch_element(b"hello"))


@pytest.mark.parametrize("topic", [TOPIC, "x" * 200])
@pytest.mark.parametrize("born_host", [BORN, HOST_IPV6])
def test_a_stored_batch_is_read_and_found(
    tmp_path: Path, topic: str, born_host: PackedHost
) -> None:
    with opened(tmp_path) as store:
        result = store.put_encoded_batch(topic, 0, CONTENT, born_host=born_host)
        records = read_all(store, topic=topic)

        assert result.status is PutStatus.PUT_OK
        assert (result.count, result.log_offsets) == (3, tuple(r.log_offset for r in records))
        assert [bytes(record.body) for record in records] == [b"first", b"", b"third"]
        assert store.index is not None
        assert store.index.find(topic, "k2", 10, 0, 1 << 62) == [records[0].log_offset]


def test_no_message_is_illegal_nonsense_an_error_and_neither_leaves_a_trace(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as store:
        result = store.put_encoded_batch(TOPIC, 0, b"", born_host=HOST)
        assert result.status is PutStatus.MESSAGE_ILLEGAL
        for content in (b"nonsense", CONTENT + b"\0"):
            with pytest.raises(RecordError):
                store.put_encoded_batch(TOPIC, 0, content, born_host=HOST)

        assert store.log.end == 0
        assert read_all(store) == []
