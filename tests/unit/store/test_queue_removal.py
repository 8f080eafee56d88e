"""Deleting topics, unused topics and expired queues, while messages come."""

import asyncio
import threading
from pathlib import Path

import pytest

from emberq.errors import StoreError
from emberq.store import queue_removal
from emberq.store.tag_codes import SCHEDULE_TOPIC
from emberq.testing.faulty_disk import FaultyDisk
from tests.support.stores import (
    TOPIC,
    bodies_of,
    crash,
    loop_store,
    new_store,
    opened,
    put,
    put_many,
)

BODY = bytes(1_000)


def queue_folder(root: Path, topic: str = TOPIC) -> Path:
    return root / "consumequeue" / topic


# Topics


def test_a_deleted_topic_is_gone_and_begins_again_at_0(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 200)
        put(store, b"kept", topic="Kept")
        store.durability.write_side_files(lambda: None)
        assert queue_folder(tmp_path).exists()

        store.delete_topics([TOPIC, "Unknown"])

        assert not queue_folder(tmp_path).exists()
        assert store.max_offset(TOPIC, 0) == 0
        assert bodies_of(store, "Kept") == [b"kept"]
        assert put(store, b"again").queue_offset == 0
        assert bodies_of(store) == [b"again"]
    with opened(tmp_path) as store:
        assert bodies_of(store) == [b"again"]


def test_a_deleted_topic_stays_deleted_after_a_stop(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 10)
        put(store, b"kept", topic="Kept")
        store.delete_topics([TOPIC])
    with opened(tmp_path) as store:
        assert store.queues.topics() == {"Kept"}


def test_a_topic_deleted_and_made_again_is_right_after_a_kill(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.open()
    put_many(store, 120)
    store.durability.write_side_files(lambda: None)
    store.delete_topics([TOPIC])
    bodies = put_many(store, 3)
    crash(store)

    with opened(tmp_path) as store:
        assert bodies_of(store) == bodies


def test_what_was_dispatched_to_a_deleted_queue_is_never_written(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 10)
        queue = store.queues.get(TOPIC, 0)
        assert queue is not None

        store.delete_topics([TOPIC])
        queue.append(10, store.log.end, 100, 0)
        store.dispatcher.dirty_queues.add(queue)
        store.durability.write_side_files(lambda: None)

        assert not queue_folder(tmp_path).exists()


def test_readers_of_a_deleted_topic_do_not_keep_its_files_for_a_new_one(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put_many(store, 200)
        store.durability.write_side_files(lambda: None)
        queue = store.queues.get(TOPIC, 0)
        assert queue is not None
        queue.entries_from_disk(0, 100)  # opens its files

        store.delete_topics([TOPIC])
        put(store, b"again")
        store.durability.write_side_files(lambda: None)

        (path,) = (queue_folder(tmp_path) / "0").iterdir()
        assert path.read_bytes()[:20].strip(b"\0")


def test_unused_topics_go_and_those_the_store_needs_stay(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for topic in ("Used", "Unused", "%LMQ%light", SCHEDULE_TOPIC):
            put(store, topic=topic)
        put(store, topic="RMQ_SYS_TRANS_OP_HALF_TOPIC")

        assert store.clean_unused_topics({"Used"}) == 1
        assert store.clean_unused_topics({"Used"}) == 0
        assert "Unused" not in store.queues.topics()
        assert len(store.queues) == 4


async def test_topics_are_deleted_and_made_again_while_messages_come(tmp_path: Path) -> None:
    store = loop_store(tmp_path, flush_interval_consume_queue=1)
    store.open()
    is_done = threading.Event()

    def delete_again_and_again() -> None:
        for _ in range(50):
            store.delete_topics([TOPIC])
        is_done.set()

    deleting = asyncio.create_task(asyncio.to_thread(delete_again_and_again))
    number = 0
    while not is_done.is_set():
        assert put(store, b"%d" % number, queue_id=number % 3).status.is_stored
        number += 1
        if number % 20 == 0:
            await asyncio.sleep(0)
    await deleting
    counts = [store.max_offset(TOPIC, queue_id) for queue_id in range(3)]
    bodies = [b"last %d" % queue_id for queue_id in range(3)]
    for queue_id, body in enumerate(bodies):
        assert put(store, body, queue_id=queue_id).queue_offset >= counts[queue_id]
    store.dispatch_now()
    found = [bodies_of(store, queue_id=queue_id) for queue_id in range(3)]
    store.close()

    assert [found[queue_id][-1] for queue_id in range(3)] == bodies
    with opened(tmp_path) as again:
        assert [bodies_of(again, queue_id=queue_id) for queue_id in range(3)] == found


# Expired queues


def with_expired_queue(root: Path, topic: str = "Old") -> FaultyDisk:
    """A store in which nothing is left of a queue but its entries."""
    disk = FaultyDisk(root)
    with opened(root, disk) as store:
        put(store, b"old", topic=topic)
        for _ in range(40):
            put(store, BODY)
        store.log.remove_first()
    return disk


def test_queues_of_which_nothing_is_left_are_removed_by_command(tmp_path: Path) -> None:
    disk = with_expired_queue(tmp_path)
    with opened(tmp_path, disk) as store:
        assert store.max_offset("Old", 0) == 1

        assert store.clean_expired_queues() == 1
        assert store.clean_expired_queues() == 0

        assert store.queues.topics() == {TOPIC}
        assert not disk.exists(queue_folder(tmp_path, "Old"))
        assert put(store, topic="Old").queue_offset == 0


def test_queues_of_delayed_messages_never_expire(tmp_path: Path) -> None:
    disk = with_expired_queue(tmp_path, SCHEDULE_TOPIC)
    with opened(tmp_path, disk) as store:
        assert store.clean_expired_queues() == 0


async def test_a_queue_that_gets_a_message_meanwhile_is_not_expired(tmp_path: Path) -> None:
    disk = with_expired_queue(tmp_path)
    store = loop_store(tmp_path, disk)
    store.open()
    put(store, b"new", topic="Old")  # not dispatched yet: the turn goes on

    removing = asyncio.create_task(asyncio.to_thread(store.clean_expired_queues))

    assert await removing == 0
    assert bodies_of(store, "Old") == [b"new"]
    store.close()


async def test_a_loop_that_does_not_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_removal, "LOOP_ANSWER_TIMEOUT_S", 0.01)
    disk = with_expired_queue(tmp_path)
    store = loop_store(tmp_path, disk)
    store.open()

    with pytest.raises(StoreError, match="does not answer"):
        store.clean_expired_queues()  # on the loop itself, which cannot answer

    await asyncio.sleep(0)
    assert "Old" in store.queues.topics()
    assert await asyncio.to_thread(store.clean_expired_queues) == 1
    store.close()
