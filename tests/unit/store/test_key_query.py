"""Messages by key: hash collisions, time ranges, limits, kinds of keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emberq.record.decode import decode_record
from emberq.record.properties import encode_properties
from emberq.store.key_query import IndexType
from emberq.store.message_store import MessageStore
from tests.support.stores import HOST, START_MS, TOPIC, Clock, crash, new_store, opened, put

# Java's string hash does not tell these apart.
COLLIDING = ("Aa", "BB")
END_MS = START_MS + 10**9


def found(
    store: MessageStore,
    key: str,
    *,
    topic: str = TOPIC,
    count_max: int = 32,
    begin_ms: int = 0,
    end_ms: int = END_MS,
    index_type: IndexType | None = None,
) -> list[bytes]:
    query = store.find_by_key(topic, key, count_max, begin_ms, end_ms, index_type=index_type)
    return [bytes(decode_record(record).body) for record in query.records]


def test_messages_with_a_key_come_in_the_order_of_the_log(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"1", keys="a")
        put(store, b"2", keys="b a c")
        put(store, b"3", keys="ab")

        assert found(store, "a") == [b"1", b"2"]
        assert found(store, "missing") == []


def test_keys_and_topics_of_the_same_hash_are_told_apart(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for key in COLLIDING:
            put(store, key.encode(), keys=key)
            put(store, b"topic " + key.encode(), topic=key, keys="k")

        for key in COLLIDING:
            assert found(store, key) == [key.encode()]
            assert found(store, "k", topic=key) == [b"topic " + key.encode()]


def test_collisions_do_not_hide_messages_behind_them(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"old", keys="Aa")
        for _ in range(100):
            put(store, b"other", keys="BB")

        assert found(store, "Aa", count_max=1) == [b"old"]


def test_of_too_many_the_newest_are_returned(tmp_path: Path) -> None:
    with opened(tmp_path, max_msgs_num_batch=3) as store:
        for number in range(5):
            put(store, b"%d" % number, keys="k")

        assert found(store, "k", count_max=2) == [b"3", b"4"]
        assert found(store, "k", count_max=32) == [b"2", b"3", b"4"]
        assert found(store, "k", count_max=0) == []


def test_a_message_with_its_key_twice_is_returned_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"1", keys="k k")

        assert found(store, "k") == [b"1"]


def test_unique_keys_keys_and_tags_are_found_by_their_types(tmp_path: Path) -> None:
    properties = encode_properties({"UNIQ_KEY": "U1", "KEYS": "K1", "TAGS": "T1"})
    with opened(tmp_path) as store:
        store.put(TOPIC, 0, b"m", properties, born_host=HOST, tags="T1", keys="K1", unique_key="U1")

        assert found(store, "U1") == found(store, "U1", index_type="U") == [b"m"]
        assert found(store, "K1") == found(store, "K1", index_type="K") == [b"m"]
        assert found(store, "T1", index_type="T") == [b"m"]
        assert found(store, "T1") == found(store, "K1", index_type="T") == []


def test_the_time_range_is_kept_although_the_index_knows_seconds_only(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock) as store:
        for after_ms in (0, 1_500, 1_900, 5_000):
            clock.now_ms = START_MS + after_ms
            put(store, b"%d" % after_ms, keys="k")

        assert found(store, "k", begin_ms=START_MS + 1_900) == [b"1900", b"5000"]
        assert found(store, "k", begin_ms=START_MS + 1_901) == [b"5000"]
        assert found(store, "k", end_ms=START_MS + 4_999) == [b"0", b"1500", b"1900"]


def test_the_first_message_of_an_index_file_is_found_in_a_narrow_time_range(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock, max_index_num=3) as store:
        for number in range(5):  # two entries per file
            clock.now_ms = START_MS + number * 60_000
            put(store, b"%d" % number, keys="k")

        for number in range(5):
            stored_at_ms = START_MS + number * 60_000
            narrow = found(store, "k", begin_ms=stored_at_ms, end_ms=stored_at_ms + 10)
            assert narrow == [b"%d" % number]


def test_a_query_tells_how_far_the_index_is(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, keys="k")
        last = put(store, keys="l")

        query = store.find_by_key(TOPIC, "k", 32, 0, END_MS)

        assert query.last_update_log_offset == last.log_offset
        assert query.last_update_timestamp_ms == last.stored_at_ms


def test_without_an_index_nothing_is_found(tmp_path: Path) -> None:
    with opened(tmp_path, message_index_enable=False) as store:
        put(store, keys="k")

        assert found(store, "k") == []


# Lost index files


@pytest.mark.parametrize("end", [MessageStore.close, crash])
def test_keys_that_went_to_a_lost_index_file_are_found_again(
    end: Callable[[MessageStore], None], tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"max_index_num": 4}  # three entries per file
    store = new_store(tmp_path, **settings)
    store.open()
    put(store, b"1", keys="a b")
    put(store, b"2", keys="c d e")  # in two files
    put(store, b"3", keys="f")
    flusher = store.durability._flusher
    assert flusher is not None
    store.durability.sync_side_files(flusher._sync_whole_log, lambda: None)
    end(store)
    _, *newer = sorted((tmp_path / "index").iterdir())
    for path in newer:
        path.unlink()

    for _ in range(2):
        with opened(tmp_path, **settings) as store:
            bodies = [found(store, key) for key in "abcdef"]
        assert bodies == [[b"1"], [b"1"], [b"2"], [b"2"], [b"2"], [b"3"]]
