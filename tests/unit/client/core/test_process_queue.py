"""Messages under way: what may be committed, and when."""

from msgspec import Struct

from emberq.client.core.process_queue import NOTHING_TO_COMMIT, ProcessQueue


class FakeMessage(Struct, frozen=True):
    queue_offset: int
    size: int = 10


def messages(*offsets: int) -> list[FakeMessage]:
    return [FakeMessage(offset) for offset in offsets]


def filled(*offsets: int) -> ProcessQueue[FakeMessage]:
    queue: ProcessQueue[FakeMessage] = ProcessQueue()
    queue.add(messages(*offsets))
    return queue


def test_the_commit_stays_behind_the_slowest_message() -> None:
    queue = filled(5, 6, 7)

    assert queue.remove(messages(6, 7)) == 5
    assert queue.remove(messages(5)) == 8


def test_nothing_is_committed_for_messages_that_are_gone() -> None:
    queue = filled(5)
    queue.remove(messages(5))

    assert queue.remove(messages(5)) == NOTHING_TO_COMMIT


def test_a_repeated_pull_counts_once() -> None:
    queue = filled(1, 2)

    assert queue.add(messages(2, 3)) == messages(3)
    assert (len(queue), queue.size_bytes) == (3, 30)


def test_counts_and_span_follow_what_is_here() -> None:
    queue = filled(1, 4, 9)

    assert queue.span == 8
    queue.remove(messages(1))
    assert (queue.span, len(queue), queue.size_bytes) == (5, 2, 20)
    queue.remove(messages(4, 9))
    assert (queue.span, len(queue), queue.size_bytes, queue.first) == (0, 0, 0, None)


def test_an_orderly_batch_is_committed_as_a_whole() -> None:
    queue = filled(1, 2, 3)

    assert queue.take(2) == messages(1, 2)
    assert queue.commit() == 3
    assert queue.take(2) == messages(3)
    assert queue.commit() == 4
    assert queue.commit() == NOTHING_TO_COMMIT
    assert queue.size_bytes == 0


def test_a_batch_that_was_put_back_comes_again_in_order() -> None:
    queue = filled(1, 2, 3)
    queue.take(2)
    queue.put_back()

    assert queue.take(3) == messages(1, 2, 3)


def test_a_part_of_a_batch_can_be_put_back() -> None:
    queue = filled(1, 2, 3)
    queue.take(2)
    queue.put_back(messages(1))

    assert queue.commit() == 3
    assert queue.take(2) == messages(1, 3)


def test_taken_messages_still_count_as_first() -> None:
    queue = filled(1, 2)
    queue.take(1)

    assert queue.first == FakeMessage(1)
    assert len(queue) == 2


def test_clearing_keeps_what_was_seen() -> None:
    queue = filled(1, 2)
    queue.clear()

    assert (len(queue), queue.size_bytes, queue.offset_max) == (0, 0, 2)
    assert queue.add(messages(2)) == []
