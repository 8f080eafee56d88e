"""The compiled kernel does what the plain one does, whatever it is given."""

from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.errors import RecordError
from emberq.record.encode import encode_record, topic_part
from emberq.record.host import PackedHost
from emberq.store.consume_queue import ENTRY
from tests.support.index_records import indexed_record
from tests.support.twins import COMPILED, PURE, needs_compiled

pytestmark = [pytest.mark.property, needs_compiled]

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
wide = st.one_of(int32, int64, st.integers(1 << 63, 1 << 70))
small = st.integers(0, 1 << 40)
hosts = st.binary(min_size=8, max_size=8).map(PackedHost)
hosts_of_any_kind = st.sampled_from((8, 20)).flatmap(
    lambda size: st.binary(min_size=size, max_size=size).map(PackedHost)
)
IPV4 = PackedHost(bytes(8))
texts = st.text(max_size=40)
topics = st.text("abcÄ世#_%", min_size=1, max_size=20)
# Bytes that are nearly properties.
properties = st.lists(
    st.sampled_from(
        (
            *(b"TAGS\x01", b"KEYS\x01", b"UNIQ_KEY\x01", b"TAGS", b"UNIQ_KEY", b"\x01", b"\x02"),
            *(b"A", b"B", b" ", b"key-1", b"\xc3\xa4", b"\xff", b"\xf0\x9f\x98\x80", b"\x00"),
        )
    ),
    max_size=14,
).map(b"".join)


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, or that it refuses."""
    try:
        return function(*arguments)
    except RecordError:
        return RecordError


def both(name: str, *arguments: Any) -> Any:
    pure = outcome(getattr(PURE, name), *arguments)
    assert outcome(getattr(COMPILED, name), *arguments) == pure
    return pure


record_values = st.tuples(
    topics.map(topic_part), st.binary(max_size=3_000), st.binary(max_size=100),
    *[wide] * 6, hosts, wide, hosts, wide, wide,
)  # fmt: skip


@given(record_values)
def test_records_are_equal(values: Any) -> None:
    both("encode_common_record", *values)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1_535, 1_536, 70_000])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bodies_of_any_size_and_kind_are_equal(size: int, kind: Any) -> None:
    body = kind(bytes(number * 37 & 0xFF for number in range(size)))
    host = PackedHost(bytes(8))
    record = both(
        "encode_common_record", b"\x01t", body, b"p", 1, 2, 3, 4, 5, 6, host, 7, host, 8, 9
    )

    assert len(record) == 88 + size + 2 + 2 + 1


@pytest.mark.parametrize("size", [32_767, 32_768])
def test_properties_that_are_too_long_are_refused_by_both(size: int) -> None:
    host = PackedHost(bytes(8))
    both("encode_common_record", b"\x01t", b"", bytes(size), 0, 0, 0, 0, 0, 0, host, 0, host, 0, 0)


@pytest.mark.parametrize("first", range(0, 640, 64))
def test_bodies_of_every_size_have_the_same_checksum(first: int) -> None:
    """Sums fold 64 bytes at a time, then 16, then one by one."""
    body = bytes(number * number % 251 for number in range(first + 64))
    for size in (*range(first, first + 64), 1_535 + first, 65_536 + first):
        given = body[:size] if size <= len(body) else (body * (size // len(body) + 1))[:size]
        both("encode_common_record", b"\x01t", given, b"p", 1, 2, 3, 4, 5, 6, IPV4, 7, IPV4, 8, 9)


def test_large_bodies_of_a_batch_are_equal() -> None:
    host = PackedHost(bytes(8))
    sizes = (1_535, 1_536, 40_000)
    content = batch_of([(0, bytes(range(256)) * 200, b"")] + [(1, b"x" * n, b"") for n in sizes])
    records, *_ = both("explode_batch", content, "t", b"\x01t", 0, 0, 0, 0, 0, host, 0, host, 0)
    found, *_ = both("scan_records", memoryview(records), 0, 0, len(records), True, 10)

    assert len(found) == 4


elements = st.lists(st.tuples(int32, st.binary(max_size=60), properties), max_size=6)


def batch_of(messages: list[tuple[int, bytes, bytes]]) -> bytes:
    return b"".join(
        bytes(12)
        + flag.to_bytes(4, "big", signed=True)
        + len(body).to_bytes(4, "big")
        + body
        + len(text).to_bytes(2, "big")
        + text
        for flag, body, text in messages
    )


request_values = st.tuples(wide, small, small, wide, wide, hosts, wide, hosts, wide)


@given(elements.filter(bool), topics, request_values)
def test_batches_are_equal(
    messages: list[tuple[int, bytes, bytes]], topic: str, around: Any
) -> None:
    both("explode_batch", batch_of(messages), topic, topic_part(topic), *around)


# What messages of one producer have in common, and keys that mostly end differently.
unique_keys = st.lists(
    st.tuples(
        st.sampled_from(("7F0000010B2C18B4AAC2", "7F0000010B2C18B4AAC3", "7F00\x02", "ä", "")),
        st.sampled_from(("", "00000000", "9" * 70)),
        st.integers(0, 40),
    ).map(lambda parts: f"{parts[0]}{parts[1]}{parts[2]:X}".encode()),
    min_size=1,
    max_size=40,
)


@given(
    unique_keys,
    st.sampled_from((b"", b"WAIT\x01true\x02", b"KEYS\x01k\x02", b"TAGS\x01B\x02")),
    st.sampled_from(
        (b"", b"\x02", b"\x02TAGS\x01A\x02", b"\x02UNIQ_KEY\x01\x02", b"\x02W\x01t\x02")
    ),
    st.lists(st.integers(0, 2), min_size=1, max_size=3),
)
def test_batches_of_one_producer_are_equal(
    keys: list[bytes], before: bytes, behind: bytes, body_sizes: list[int]
) -> None:
    texts = [before + b"UNIQ_KEY\x01" + key + behind for key in keys]
    messages = [
        (number, b"x" * body_sizes[number % len(body_sizes)], text)
        for number, text in enumerate(texts)
    ]
    both("explode_batch", batch_of(messages), "t", b"\x01t", 0, 0, 0, 0, 0, IPV4, 0, IPV4, 0)


def test_a_batch_of_more_messages_than_are_hashed_at_once_is_equal() -> None:
    text = "UNIQ_KEY\x017F0000010B2C18B4AAC2{:012X}\x02TAGS\x01A\x02"
    messages = [(0, b"x", text.format(number).encode()) for number in range(300)]
    hashes = both("explode_batch", batch_of(messages), "t", b"\x01t", *(0,) * 5, IPV4, 0, IPV4, 0)[
        3
    ]

    assert len(hashes) == 600


@given(elements, st.data())
def test_damaged_batches_are_equal(
    messages: list[tuple[int, bytes, bytes]], data: st.DataObject
) -> None:
    content = bytearray(batch_of(messages))
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    host = PackedHost(bytes(8))
    both("explode_batch", bytes(content), "t", b"\x01t", 0, 0, 0, 0, 0, host, 0, host, 0)


@given(st.lists(st.tuples(texts, texts), max_size=64))
def test_hashes_are_equal(pairs: list[tuple[str, str]]) -> None:
    names, keys = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    hashes = both("index_hashes", names, keys)
    places = list(reversed(range(len(pairs))))
    into: list[int] = [-1] * len(pairs)
    COMPILED.hash_into(into, places, names, keys)

    assert into == hashes[::-1]


@given(
    st.integers(0, 70).map(lambda size: "7F00000" * 10 + "x" * size),
    st.lists(st.text("0123456789AFä\ud800", min_size=3, max_size=3), max_size=64),
)
def test_hashes_of_keys_that_begin_alike_are_equal(beginning: str, ends: list[str]) -> None:
    both("index_hashes", ["topic"] * len(ends), [beginning + end for end in ends])


def test_lone_surrogates_hash_equally() -> None:
    both("index_hashes", ["t", "\ud800", "t"], ["\udc00", "x", "\ud83d\ude00😀"])


@given(
    st.integers(1, 40),
    st.integers(1, 1 << 30),
    st.lists(
        st.tuples(st.integers(0, (1 << 31) - 1), small, st.integers(0, (1 << 31) - 1)), max_size=64
    ),
)
def test_index_entries_and_slots_are_equal(
    slot_count: int, number: int, rows: list[tuple[int, int, int]]
) -> None:
    columns = [[row[index] for row in rows] for index in range(3)]
    slots = [array("i", [0] * slot_count), array("i", [0] * slot_count)]
    answers = [
        twin.chain_entries(memoryview(values), number, *columns)
        for twin, values in zip((PURE, COMPILED), slots, strict=True)
    ]

    assert answers[0] == answers[1]
    assert slots[0] == slots[1]


@given(
    st.integers(1, 300),
    st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=64),
    st.integers(0, (1 << 31) - 1),
)
def test_index_entries_of_messages_with_one_tag_are_equal(
    slot_count: int, keys: list[int], tag: int
) -> None:
    hashes = [number for key in keys for number in (key, tag)]
    offsets, seconds = list(range(len(hashes))), [7] * len(hashes)
    slots = [array("i", range(slot_count)), array("i", range(slot_count))]
    answers = [
        twin.chain_entries(memoryview(values), 1_000, hashes, offsets, seconds)
        for twin, values in zip((PURE, COMPILED), slots, strict=True)
    ]

    assert answers[0] == answers[1]
    assert slots[0] == slots[1]


@given(st.sampled_from([4, 8, 20]).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
       st.lists(st.integers(0, (1 << 64) - 1), max_size=40).map(tuple))  # fmt: skip
def test_message_ids_are_equal(host: bytes, log_offsets: tuple[int, ...]) -> None:
    both("joined_ids", host, log_offsets)


@given(
    st.lists(
        st.tuples(
            st.integers(-5, 3_000),
            st.one_of(st.integers(-3, 400), st.just(0x7FFF_FFFF)),
            st.integers(-3, 3),
        ),
        max_size=40,
    ),
    st.tuples(
        st.integers(0, 1 << 40),
        st.integers(0, 10),
        st.integers(0, 2_000),
        st.integers(0, 500),
        st.integers(0, 4_000),
        st.sampled_from((64, 1_024)),
        st.sampled_from((None, lambda code: code > 0)),
    ),
)
def test_the_same_entries_are_chosen(entries: list[tuple[int, int, int]], limits: Any) -> None:
    both("choose_entries", b"".join(ENTRY.pack(*entry) for entry in entries), *limits)


@given(
    st.lists(
        st.tuples(
            st.integers(-5, 3_000),
            st.one_of(st.integers(-3, 400), st.just(0x7FFF_FFFF)),
            st.integers(-3, 3),
        ),
        max_size=40,
    ),
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 10),
        st.integers(0, 2_000),
        st.integers(0, 500),
        st.integers(0, 4_000),
        st.sampled_from((64, 1_024)),
    ),
)
def test_the_same_ranges_are_chosen(entries: list[tuple[int, int, int]], limits: Any) -> None:
    content = bytearray().join(ENTRY.pack(*entry) for entry in entries)
    first, *others = limits
    both("choose_ranges", content, first * ENTRY.size, len(content), *others)


@given(
    st.lists(st.binary(max_size=30), min_size=1, max_size=4),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 7)), max_size=2),
    st.integers(-40, 40),
    st.sampled_from((0, 1)),
)
def test_the_same_records_are_believed(
    bodies: list[bytes],
    is_crc_checked: bool,
    flips: list[tuple[int, int]],
    cut: int,
    queue_id: int,
) -> None:
    topic = topic_part("T")
    assert topic is not None
    content, run = b"", []
    for number, body in enumerate(bodies):
        place = 1_000 + len(content)
        record = PURE.encode_common_record(
            topic, body, b"a\x01b", 0, 0, number, place, 0, 0, IPV4, 0, IPV4, 0, 0
        )
        run.append((number, place, len(record)))
        content += record
    damaged = bytearray(content)
    for position, bit in flips:
        if position < len(damaged):
            damaged[position] ^= 1 << bit
    size = len(damaged) + min(cut, 0)
    given_bytes = memoryview(bytes(damaged[:size]) + bytes(max(cut, 0)))
    entries = b"".join(ENTRY.pack(place, size, 0) for _, place, size in run)
    both("are_records_of", given_bytes, run, queue_id, topic, is_crc_checked)
    both("count_records_of", given_bytes, entries, 0, 0, queue_id, topic, is_crc_checked)
    both("count_records_of", given_bytes, entries, 1, 1, queue_id, topic, is_crc_checked)
    if not flips and cut >= 0 and queue_id == 0:
        assert PURE.are_records_of(given_bytes, run, queue_id, topic, is_crc_checked)
    if not flips and cut == 0 and queue_id == 0:
        found = PURE.count_records_of(given_bytes, entries, 0, 0, queue_id, topic, is_crc_checked)
        assert found == len(run)


@given(properties, st.integers(0, 5), st.integers(0, 5))
def test_the_same_properties_are_found(text: bytes, before: int, behind: int) -> None:
    content = memoryview(bytes(before) + text + b"\x02TAGS\x01x"[:behind])
    both("indexed_properties", content, before, before + len(text))


@given(
    st.lists(
        st.builds(
            indexed_record,
            small,
            st.none() | texts,
            keys=st.none() | st.text("ab ä😀", max_size=9),
            tags=st.none() | texts,
            topic=topics,
            stored_at_ms=small,
            is_indexed=st.booleans(),
        ),
        max_size=80,
    )
)
def test_keys_of_records_are_equal(records: list[Any]) -> None:
    both("hash_record_keys", records)


@given(
    st.lists(texts, max_size=80),
    st.sampled_from(("A", "", None)),
    st.lists(st.sampled_from(("A", None)), max_size=1),
)
def test_keys_of_records_of_one_producer_are_equal(
    keys: list[str], tags: str | None, last: list[str | None]
) -> None:
    records = [
        indexed_record(number, key, tags=tags, topic="t", stored_at_ms=number)
        for number, key in enumerate(keys)
    ]
    records += [indexed_record(99, None, tags=tag, topic="t", stored_at_ms=9) for tag in last]
    both("hash_record_keys", records)


@given(st.lists(st.tuples(topics, properties, st.integers(0, 3), small), max_size=20))
def test_the_same_keys_are_collected(records: list[tuple[str, bytes, int, int]]) -> None:
    collectors = (PURE.KeyCollector(), COMPILED.KeyCollector())
    for number, (topic, text, before, time_ms) in enumerate(records):
        view = memoryview(bytes(before) + text + b"x")
        codes = [
            collector.note(topic, view, before, before + len(text), number, time_ms)
            for collector in collectors
        ]
        assert codes[0] == codes[1]
        if number % 7 == 6:
            assert collectors[0].take() == collectors[1].take()

    assert collectors[0].take() == collectors[1].take()
    assert collectors[1].take() == ([], [], [])


def test_an_empty_unique_key_is_none_although_its_neighbours_are_known() -> None:
    for twin in (PURE, COMPILED):
        collector = twin.KeyCollector()
        for text in (b"UNIQ_KEY\x01U\x02TAGS\x01A\x02", b"UNIQ_KEY\x01\x02TAGS\x01A\x02"):
            collector.note("t", text, 0, len(text), 7, 8)
        hashes, owners, times_ms = collector.take()

        assert len(hashes) == len(owners) == len(times_ms) == 3


@given(
    st.lists(
        st.tuples(
            topics, st.binary(max_size=50), properties, hosts_of_any_kind, hosts_of_any_kind,
            st.booleans(),
        ),
        max_size=5,
    ),
    st.integers(1, 4),
    st.booleans(),
    st.data(),
)  # fmt: skip
def test_the_same_records_and_flaws_are_found(
    messages: list[Any], count_max: int, is_crc_checked: bool, data: st.DataObject
) -> None:
    content = bytearray()
    base = data.draw(small)
    for topic, body, text, born_host, store_host, is_v2 in messages:
        content += encode_record(
            topic, body, text, queue_id=3, queue_offset=9, log_offset=base + len(content),
            born_host=born_host, store_host=store_host, stored_at_ms=77, is_v2=is_v2,
        )  # fmt: skip
    content += bytes(data.draw(st.integers(0, 100)))
    for _ in range(data.draw(st.integers(0, 2))):
        if content:
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] ^= data.draw(st.integers(1, 255))
    view = memoryview(bytes(content))
    room = data.draw(st.integers(0, len(view)))
    position = 0
    while True:
        _, position, is_over, _ = both(
            "scan_records", view, position, base, room, is_crc_checked, count_max
        )
        if is_over:
            break


class Followed:
    """A queue, as the collectors see it."""

    def __init__(self, topic: str, end_offset: int, log_end_offset: int) -> None:
        self.topic = topic
        self.end_offset = end_offset
        self.log_end_offset = log_end_offset


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("a", "bÄ", "odd", "new")),  # topic
            st.integers(0, 1),  # queue
            st.sampled_from((0, 0, 0, 0, 1)),  # offset too many
            properties,
            st.sampled_from((0, 0, 0, 0x1, 0x4, 0x8)),  # system flag
            hosts_of_any_kind.map(lambda host: host if host[0] > 200 else IPV4),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.integers(0, 1_000),
    st.integers(0, 600),
    st.integers(1, 13),
    st.data(),
)
def test_the_same_records_are_collected(
    messages: list[Any], begun: int, indexed_until: int, count_max: int, data: st.DataObject
) -> None:
    base, content = 64, b""
    offsets: dict[tuple[str, int], int] = {}
    for topic, queue_id, extra, text, flag, host, is_v2 in messages:
        offset = offsets.get((topic, queue_id), 3)
        offsets[topic, queue_id] = offset + 1
        content += encode_record(
            topic, b"body" * queue_id, text, queue_id=queue_id, queue_offset=offset + extra,
            log_offset=base + len(content), system_flag=flag, born_host=host, store_host=IPV4,
            stored_at_ms=len(content), is_v2=is_v2 and extra > 0,
        )  # fmt: skip
    damaged = bytearray(content)
    if content and data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(content) - 1))] ^= 0x81
    answers = []
    for twin in (PURE, COMPILED):
        known = {
            (topic.encode(), queue_id): Followed(topic, 3, begun if topic == "a" else -1)
            for topic in ("a", "bÄ", "odd")
            for queue_id in (0, 1)
        }
        keys = twin.KeyCollector()
        *facts, grown = twin.collect_records(
            memoryview(damaged), 0, base, len(damaged), True, count_max, known, keys,
            indexed_until, b"odd",
        )  # fmt: skip
        grown = [(queue.topic, *rest) for queue, *rest in grown]
        answers.append((facts, sorted(grown), keys.take()))

    assert answers[0] == answers[1]
    assert answers[0][0][1] <= count_max
