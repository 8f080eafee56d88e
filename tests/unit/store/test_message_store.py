"""The store as a whole: putting, reading, notifying, copying another broker's log."""

import asyncio
from pathlib import Path

import pytest

from emberq.errors import StoreError
from emberq.record.layout import MAGIC_V1, MAGIC_V2
from emberq.record.property_crc import has_valid_property_crc
from emberq.record.system_flag import TransactionType
from emberq.store.config import StoreConfig
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.message_store import MessageStore, NewMessage
from emberq.store.results import PutStatus, ReadStatus
from emberq.store.tag_codes import SCHEDULE_TOPIC
from tests.support.stores import (
    HOST,
    HOST_IPV6,
    SEGMENT_SIZE,
    TOPIC,
    Clock,
    bodies_of,
    durable,
    loop_store,
    new_store,
    opened,
    put,
    put_batch,
    put_many,
    read,
    read_all,
    records_of,
)
from tests.support.waiting import loop_turns, until


def test_a_message_is_read_as_it_was_put(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        result = put(
            store,
            b"body",
            tags="A",
            keys="k1 k2",
            flag=7,
            born_at_ms=1234,
            reconsume_times=2,
            prepared_offset=99,
        )
        (record,) = read_all(store)

    assert result.status is PutStatus.PUT_OK
    assert (record.log_offset, record.queue_offset) == (result.log_offset, result.queue_offset)
    assert record.stored_at_ms == result.stored_at_ms
    assert (bytes(record.body), record.flag, record.born_at_ms) == (b"body", 7, 1234)
    assert (record.reconsume_times, record.prepared_offset) == (2, 99)
    assert record.properties == b"TAGS\x01A\x02KEYS\x01k1 k2\x02"


def test_messages_go_on_in_the_next_segment_behind_a_blank(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        bodies = [bytes([number]) * 3_000 for number in range(20)]
        offsets = [put(store, body).log_offset for body in bodies]

        assert bodies_of(store) == bodies
        assert store.log.starts == [0, *range(SEGMENT_SIZE, offsets[-1] + 1, SEGMENT_SIZE)]


def test_a_segment_keeps_room_for_its_blank(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        overhead = put(store, b"").end_offset
        room = SEGMENT_SIZE - overhead
        fits = put(store, bytes(room - overhead - 8))
        assert fits.log_offset == overhead
        assert put(store, b"next").log_offset == SEGMENT_SIZE

        assert len(read_all(store)) == 3


def test_a_record_of_a_whole_segment_is_refused_and_one_that_just_fits_is_not(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as store:
        overhead = put(store, b"").end_offset
        largest = SEGMENT_SIZE - 8 - overhead

        assert put(store, bytes(largest + 1)).status is PutStatus.MESSAGE_ILLEGAL
        assert put(store, bytes(largest)).status is PutStatus.PUT_OK
        assert put(store, b"after").status is PutStatus.PUT_OK
        assert [len(body) for body in bodies_of(store)] == [0, largest, 5]


@pytest.mark.parametrize(
    ("topic", "queue_id", "properties"),
    [
        ("a" * 300, 0, b""),
        ("a/b", 0, b""),
        ("..", 0, b""),
        ("", 0, b""),
        ("a\0b", 0, b""),
        (TOPIC, -1, b""),
        (TOPIC, 2**31, b""),
        (TOPIC, 0, bytes(40_000)),
    ],
)
def test_what_no_record_or_folder_can_hold_is_illegal(
    tmp_path: Path, topic: str, queue_id: int, properties: bytes
) -> None:
    with opened(tmp_path, mapped_file_size_commit_log=1024 * 1024) as store:
        result = store.put(topic, queue_id, b"body", properties, born_host=HOST)

        assert result.status is PutStatus.MESSAGE_ILLEGAL
        assert result.reason
        assert store.log.end == 0


def test_a_body_above_the_limit_is_illegal(tmp_path: Path) -> None:
    with opened(tmp_path, max_message_size=100) as store:
        assert put(store, bytes(101)).status is PutStatus.MESSAGE_ILLEGAL
        assert put(store, bytes(100)).status is PutStatus.PUT_OK


def test_queues_count_their_own_messages(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        offsets = [
            put(store, topic=topic, queue_id=queue_id).queue_offset
            for topic, queue_id in [("A", 0), ("A", 1), ("B", 0), ("A", 0), ("A", 1), ("A", 0)]
        ]

    assert offsets == [0, 0, 0, 1, 1, 2]


def test_a_batch_lies_back_to_back_in_log_and_queue(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"before")
        result = put_batch(store, [b"one", b"two", b"three"])
        put(store, b"after")
        records = read_all(store)

    assert (result.queue_offset, result.count) == (1, 3)
    assert result.log_offsets == tuple(record.log_offset for record in records[1:4])
    assert result.end_offset == records[4].log_offset
    assert [bytes(record.body) for record in records] == [
        b"before",
        b"one",
        b"two",
        b"three",
        b"after",
    ]


def test_a_batch_is_never_split_between_segments(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, bytes(SEGMENT_SIZE - 1_000))
        result = put_batch(store, [bytes(400)] * 3)

        assert result.log_offset == SEGMENT_SIZE
        assert len(read_all(store)) == 4


def test_an_empty_batch_and_one_larger_than_a_segment_store_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert put_batch(store, []).status is PutStatus.MESSAGE_ILLEGAL
        assert put_batch(store, [bytes(9_000)] * 2).status is PutStatus.MESSAGE_ILLEGAL
        assert store.queues.get(TOPIC, 0) is None or not read_all(store)


def test_a_long_topic_makes_a_version_2_record(tmp_path: Path) -> None:
    long_topic = "%RETRY%" + "g" * 200
    with opened(tmp_path) as store:
        put(store, b"long", topic=long_topic)
        put(store, b"short")

    with opened(tmp_path) as store:
        (long,) = read_all(store, long_topic)
        (short,) = read_all(store)
        assert (long.magic, bytes(long.body), long.topic) == (MAGIC_V2, b"long", long_topic)
        assert short.magic == MAGIC_V1


def test_ipv6_hosts_survive_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"four", born_host=HOST)
        put(store, b"six", born_host=HOST_IPV6)
        put(store, b"four again", born_host=HOST)

    with opened(tmp_path) as store:
        records = read_all(store)
        assert [record.born_host for record in records] == [HOST, HOST_IPV6, HOST]
        assert [bytes(record.body) for record in records] == [b"four", b"six", b"four again"]


def test_halves_of_transactions_are_in_the_log_and_in_no_queue(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        prepared = put(store, b"half", system_flag=TransactionType.PREPARED)
        rolled_back = put(store, b"no", system_flag=TransactionType.ROLLBACK)
        committed = put(store, b"yes", system_flag=TransactionType.COMMIT)
        assert prepared.status is rolled_back.status is PutStatus.PUT_OK
        assert (prepared.queue_offset, committed.queue_offset) == (0, 0)
        assert bodies_of(store) == [b"yes"]

    (tmp_path / "abort").touch()
    with opened(tmp_path) as store:
        assert bodies_of(store) == [b"yes"]


def test_store_times_never_go_back_even_over_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock) as store:
        first = put(store).stored_at_ms
        clock.now_ms -= 10_000
        assert put(store).stored_at_ms == first
    with opened(tmp_path, clock=clock) as store:
        assert put(store).stored_at_ms == first


def test_a_scheduled_message_carries_its_delivery_time_as_tag_code(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        properties = b"DELAY\x012\x02TAGS\x01A\x02"
        result = store.put(SCHEDULE_TOPIC, 1, b"", properties, born_host=HOST, tags="A", delay="2")
        delivered_at_ms = result.stored_at_ms + 5_000
        seen: list[int] = []
        read(store, topic=SCHEDULE_TOPIC, queue_id=1, accepts=seen.append)

    assert seen == [delivered_at_ms]


def test_a_store_that_is_not_open_refuses_and_says_why(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    assert "not open" in put(store).reason
    store.open()
    store.close()

    refused = put(store)

    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "closed" in refused.reason
    assert durable(store, 1) == [PutStatus.SERVICE_NOT_AVAILABLE]
    with pytest.raises(StoreError):
        store.put_raw(0, b"")


# Notifications


async def test_listeners_hear_once_per_turn_of_everything_that_was_put(tmp_path: Path) -> None:
    store = loop_store(tmp_path)
    store.open()
    ends: list[int] = []
    grown: list[tuple[int, int]] = []
    store.on_log_grown(ends.append)
    store.dispatcher.on_queue_grown(lambda queue, end: grown.append((queue.queue_id, end)))

    for _ in range(3):
        put(store, queue_id=0)
        put(store, queue_id=1)
    last = put_batch(store, [b"a", b"b"])
    assert ends == []
    await loop_turns(1)

    assert ends == [last.end_offset]
    assert sorted(grown) == [(0, 5), (1, 3)]
    store.close()


def test_a_batch_is_dispatched_at_once_without_a_loop(tmp_path: Path) -> None:
    grown: list[int] = []
    with opened(tmp_path) as store:
        store.dispatcher.on_queue_grown(lambda _queue, end: grown.append(end))
        put_batch(store, [b"a", b"b", b"c"])

    assert grown == [3]


async def test_closing_dispatches_what_the_turn_left(tmp_path: Path) -> None:
    store = loop_store(tmp_path)
    store.open()
    put(store, b"late")
    store.close()

    with opened(tmp_path) as store:
        assert bodies_of(store) == [b"late"]


async def test_waiters_of_one_moment_share_a_sync_and_are_released_in_order(
    tmp_path: Path,
) -> None:
    store = loop_store(tmp_path)
    store.open()
    released: list[int] = []
    for number in range(50):
        result = put(store, b"%d" % number)

        def done(status: PutStatus, number: int = number) -> None:
            assert status is PutStatus.PUT_OK
            released.append(number)

        store.when_durable(result.end_offset, done)

    await until(lambda: len(released) == 50)
    assert released == list(range(50))
    assert store.flushed_offset == store.log.end
    store.close()


# Another broker's log


def copy_of(store: MessageStore) -> bytes:
    return b"".join(bytes(segment.view) for _, segment in zip(*store.log._chain, strict=True))[
        : store.log.end
    ]


@pytest.fixture
def master_bytes(tmp_path: Path) -> bytes:
    with opened(tmp_path / "master") as master:
        put_many(master, 40, queue_id=0)
        for number in range(20):
            put(master, b"%d" % number * 500, queue_id=1, tags="A")
        return copy_of(master)


def test_another_log_is_copied_in_pieces_of_any_size(tmp_path: Path, master_bytes: bytes) -> None:
    with opened(tmp_path / "slave") as slave:
        for at in range(0, len(master_bytes), 777):
            slave.put_raw(at, master_bytes[at : at + 777])
            slave.dispatch_raw()
        assert slave.log.end == len(master_bytes)
        assert len(read_all(slave, queue_id=0)) == 40

    with opened(tmp_path / "slave") as slave:
        assert len(read_all(slave, queue_id=0)) == 40
        assert len(read_all(slave, queue_id=1)) == 20
        assert put(slave, b"now a master").queue_offset == 40


def test_dispatch_stops_at_the_confirmed_offset(tmp_path: Path, master_bytes: bytes) -> None:
    with opened(tmp_path / "slave") as slave:
        slave.put_raw(0, master_bytes)
        size = 128
        assert slave.dispatch_raw(confirmed_offset=size * 3) <= size * 3
        seen = len(read_all(slave, queue_id=0))
        assert 0 < seen < 40
        ends: list[ConsumeQueue] = []
        slave.dispatcher.on_queue_grown(lambda queue, _end: ends.append(queue))
        assert slave.dispatch_raw() <= len(master_bytes)
        assert len(read_all(slave, queue_id=0)) == 40
        assert len(ends) == 2


def test_bytes_that_do_not_continue_the_log_are_refused(
    tmp_path: Path, master_bytes: bytes
) -> None:
    with opened(tmp_path / "slave") as slave:
        with pytest.raises(StoreError, match="do not continue"):
            slave.put_raw(100, master_bytes[100:])
        slave.put_raw(0, master_bytes[:1000])
        with pytest.raises(StoreError, match="do not continue"):
            slave.put_raw(999, master_bytes[999:])


def test_a_copied_log_may_begin_with_a_later_segment(tmp_path: Path, master_bytes: bytes) -> None:
    with opened(tmp_path / "slave") as slave:
        slave.put_raw(SEGMENT_SIZE, master_bytes[SEGMENT_SIZE:])
        slave.dispatch_raw()
        queue = slave.queues.get(TOPIC, 1)
        assert queue is not None
        first, end = queue.min_offset, queue.end_offset
        assert 0 < first < end == 20
        assert read(slave, 0, queue_id=1).status is ReadStatus.OFFSET_TOO_SMALL

    with opened(tmp_path / "slave") as slave:
        assert slave.log.min_offset == SEGMENT_SIZE
        assert [record.queue_offset for record in read_all(slave, queue_id=1)] == list(
            range(first, end)
        )


def test_a_truncated_store_goes_on_from_there(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        results = [put(store, b"%d" % number * 1_000) for number in range(30)]
        cut = results[12]
        store.truncate(cut.log_offset)
        assert store.log.end == cut.log_offset
        assert store.flushed_offset <= store.log.end
        assert len(read_all(store)) == 12

        again = put(store, b"another")
        assert (again.log_offset, again.queue_offset) == (cut.log_offset, 12)

    with opened(tmp_path) as store:
        assert len(read_all(store)) == 13
        assert bodies_of(store)[-1] == b"another"


def test_who_waits_for_what_is_cut_off_is_told(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        first = put(store)
        second = put(store)
        outcome = durable(store, second.end_offset)
        store.truncate(first.end_offset)

        store.poll()
        assert len(outcome) == 1


def test_records_of_a_read_lie_in_as_few_parts_as_possible(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(10):
            put(store, b"%d" % number)
        result = read(store, 0, count_max=4)

    assert len(result.parts) == 1
    assert result.count == len(records_of(result)) == 4


def test_messages_of_a_batch_have_their_own_tags_and_keys(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        messages = [
            NewMessage(body=b"a", properties=b"TAGS\x01A\x02KEYS\x01ka\x02"),
            NewMessage(body=b"b", properties=b"TAGS\x01B\x02KEYS\x01kb\x02"),
        ]
        result = store.put_batch(TOPIC, 0, messages, born_host=HOST)
        assert store.index is not None
        found = store.index.find(TOPIC, "kb", 8, 0, 2**60)

    assert found == [result.log_offsets[1]]


def test_the_index_can_be_switched_off(tmp_path: Path) -> None:
    with opened(tmp_path, message_index_enable=False) as store:
        put_many(store, 3)
    with opened(tmp_path, message_index_enable=False) as store:
        assert store.index is None
        assert len(read_all(store)) == 3


def test_the_default_configuration_is_the_official_one() -> None:
    config = StoreConfig()

    assert config.mapped_file_size_commit_log == 1 << 30
    assert config.queue_file_size_bytes == 6_000_000


async def test_a_put_during_a_sync_shares_the_next_one(tmp_path: Path) -> None:
    store = loop_store(tmp_path)
    store.open()
    done: list[PutStatus] = []

    async def produce() -> None:
        for _ in range(20):
            result = put(store)
            settled: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
            store.when_durable(result.end_offset, settled.set_result)
            done.append(await settled)

    async with asyncio.timeout(15):
        await asyncio.gather(*(produce() for _ in range(5)))
    store.close()

    assert done == [PutStatus.PUT_OK] * 100


def test_every_record_ends_in_a_checksum_where_that_is_wanted(tmp_path: Path) -> None:
    with opened(tmp_path, enabled_append_prop_crc=True) as store:
        put(store, b"one", tags="a", keys="k")
        store.put(TOPIC, 0, b"again", b"__CRC32#\x010123456789\x02A\x01b", born_host=HOST)
        put_batch(store, [b"two", b"three"])
        contents = [store.record_at(record.log_offset) for record in read_all(store)]
        found = store.find_by_key(TOPIC, "k", 10, 0, 1 << 62)

    assert len(contents) == 4
    for content in contents:
        assert content is not None
        assert has_valid_property_crc(content)
        assert content.count(b"__CRC32#") == 1
    assert len(found.records) == 1
