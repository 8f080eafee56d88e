"""How far the next micro-batch goes."""

import logging

import pytest

from emberq.client.core.scanned import QueueHead
from emberq.errors import DataLost
from emberq.model.queue import MessageQueue
from emberq.spark.options import TriggerLimits
from emberq.spark.planning import QueueSlice
from emberq.spark.stream_progress import StreamProgress

A, B = MessageQueue("k", 0, "t"), MessageQueue("k", 1, "t")


def heads(**ends: int) -> dict[MessageQueue, QueueHead]:
    return {{"a": A, "b": B}[name]: QueueHead(0, end) for name, end in ends.items()}


def next_end(
    run: StreamProgress,
    start: dict[MessageQueue, int],
    reach: dict[MessageQueue, int],
    now_s: float = 0.0,
    begins: dict[MessageQueue, int] | None = None,
) -> dict[MessageQueue, int]:
    return run.next_end(start, reach, begins or {}, now_s, size)


def progress(*, fails_on_loss: bool = True, **limits: float) -> StreamProgress:
    return StreamProgress(TriggerLimits(**limits), fails_on_loss=fails_on_loss)  # type: ignore[arg-type] # by name


def size(each: QueueSlice) -> float:
    return 100.0


def test_a_run_that_ends_reads_what_was_there_and_no_more() -> None:
    run = progress()
    run.freeze(heads(a=10))

    assert run.reach({A: 4}, heads(a=30, b=7)) == {A: 10}
    assert run.reach({A: 10}, heads(a=30)) == {A: 10}


def test_a_run_that_ends_reads_nothing_of_what_it_did_not_see() -> None:
    run = progress()
    run.freeze(heads(a=10))

    assert run.reach({A: 4, B: 5}, heads(a=30, b=7)) == {A: 10, B: 5}
    assert run.reach({A: 12}, heads(a=30)) == {A: 12}


def test_a_queue_that_is_made_anew_is_noticed_by_a_run_that_ends() -> None:
    for fails_on_loss in (True, False):
        run = progress(fails_on_loss=fails_on_loss)
        run.freeze(heads(a=550))
        if fails_on_loss:
            with pytest.raises(DataLost, match="was read up to 900, but the queue ends at 550"):
                run.reach({A: 900}, heads(a=550))
        else:
            assert run.reach({A: 900}, heads(a=550)) == {A: 550}


def test_new_queues_are_part_of_what_can_be_read() -> None:
    assert progress().reach({A: 4}, heads(a=10, b=7)) == {A: 10, B: 7}


def test_a_queue_that_is_gone_or_shorter_is_a_loss() -> None:
    with pytest.raises(DataLost, match="t k/1 was read up to 5, but the queue is gone"):
        progress().reach({A: 4, B: 5}, heads(a=10))
    with pytest.raises(DataLost, match="the queue ends at 3"):
        progress().reach({A: 4}, heads(a=3))


def test_who_does_not_mind_goes_on() -> None:
    assert progress(fails_on_loss=False).reach({A: 4, B: 5}, heads(a=10)) == {A: 10, B: 5}
    assert progress(fails_on_loss=False).reach({A: 4}, heads(a=3)) == {A: 3}


def test_what_nobody_minds_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    run = progress(fails_on_loss=False)

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            run.reach({A: 4, B: 5}, heads(a=10))
    assert [each.getMessage() for each in caplog.records] == [
        "messages_gone t k/1 was read up to 5, but the queue is gone; the query goes on with the "
        "others"
    ]

    run.reach({A: 4, B: 5}, heads(a=10, b=5))
    run.reach({A: 4, B: 5}, heads(a=10, b=3))
    assert "but the queue ends at 3" in caplog.records[-1].getMessage()


def test_queues_that_begin_are_stored_where_they_begin_and_read_by_the_batch_behind() -> None:
    run = progress(rows_max=40)
    anew = {A: 900, B: 5}, {A: 550, B: 95}  # A was made anew: its first message is the first one

    assert next_end(run, *anew, begins={A: 0}) == {A: 0, B: 45}
    assert next_end(run, {A: 0, B: 45}, {A: 550, B: 95}) == {A: 36, B: 49}
    assert next_end(progress(rows_min=1_000), *anew, begins={A: 0}) == {A: 0, B: 5}


def test_a_new_queue_of_a_topic_that_is_read_has_all_its_messages_or_lost_some() -> None:
    there = {A: QueueHead(0, 10), B: QueueHead(3, 7)}
    elsewhere = {MessageQueue("l", 0, "t"): 5, MessageQueue("k", 0, "u"): 5}

    with pytest.raises(DataLost, match="t k/1 is new, but messages 0 to 3 of it are gone; fail"):
        progress().check_begins({A: 4}, {B: 3}, there)
    progress(fails_on_loss=False).check_begins({A: 4}, {B: 3}, there)
    progress().check_begins({A: 4}, {B: 5}, there)  # its group has read the others
    progress().check_begins({A: 4, B: 9}, {B: 3}, there)  # made anew, which was told
    progress().check_begins(elsewhere, {A: 0, B: 3}, there)  # a topic or broker with a history


def test_the_smaller_of_both_limits_counts() -> None:
    run = progress(rows_max=50, bytes_max=2_000)

    assert next_end(run, {A: 0}, {A: 1_000}) == {A: 20}
    assert next_end(progress(rows_max=5), {A: 0}, {A: 1_000}) == {A: 5}


def test_limits_count_unless_all_is_asked_for() -> None:
    run = progress(rows_max=5, rows_min=10_000)

    assert run.next_end({A: 0}, {A: 1_000}, {}, 0.0, size, is_all=True) == {A: 1_000}


def test_a_minimum_holds_back_until_it_is_reached_or_time_is_over() -> None:
    run = progress(rows_min=10, delay_max_s=30.0)

    assert next_end(run, {A: 0}, {A: 9}, 100.0) == {A: 0}
    assert next_end(run, {A: 0}, {A: 9}, 129.0) == {A: 0}
    assert next_end(run, {A: 0}, {A: 9}, 130.0) == {A: 9}
    assert next_end(run, {A: 9}, {A: 10}, 131.0) == {A: 9}
    assert next_end(run, {A: 9}, {A: 19}, 132.0) == {A: 19}


def test_a_run_that_ends_does_not_wait_for_a_minimum() -> None:
    run = progress(rows_min=10)
    run.freeze(heads(a=3))

    assert next_end(run, {A: 0}, run.reach({A: 0}, heads(a=3))) == {A: 3}
