"""How far the next micro-batch goes."""

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


def progress(*, fails_on_loss: bool = True, **limits: float) -> StreamProgress:
    return StreamProgress(TriggerLimits(**limits), fails_on_loss=fails_on_loss)  # type: ignore[arg-type] # by name


def size(each: QueueSlice) -> float:
    return 100.0


def test_a_run_that_ends_reads_what_was_there_and_no_more() -> None:
    run = progress()
    run.freeze(heads(a=10))

    assert run.reach({A: 4}, heads(a=30, b=7)) == {A: 10}
    assert run.reach({A: 10}, heads(a=30)) == {A: 10}


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


def test_the_smaller_of_both_limits_counts() -> None:
    run = progress(rows_max=50, bytes_max=2_000)

    assert run.next_end({A: 0}, {A: 1_000}, 0.0, size) == {A: 20}
    assert progress(rows_max=5).next_end({A: 0}, {A: 1_000}, 0.0, size) == {A: 5}


def test_a_minimum_holds_back_until_it_is_reached_or_time_is_over() -> None:
    run = progress(rows_min=10, delay_max_s=30.0)

    assert run.next_end({A: 0}, {A: 9}, 100.0, size) == {A: 0}
    assert run.next_end({A: 0}, {A: 9}, 129.0, size) == {A: 0}
    assert run.next_end({A: 0}, {A: 9}, 130.0, size) == {A: 9}
    assert run.next_end({A: 9}, {A: 10}, 131.0, size) == {A: 9}
    assert run.next_end({A: 9}, {A: 19}, 132.0, size) == {A: 19}


def test_a_run_that_ends_does_not_wait_for_a_minimum() -> None:
    run = progress(rows_min=10)
    run.freeze(heads(a=3))

    assert run.next_end({A: 0}, run.reach({A: 0}, heads(a=3)), 0.0, size) == {A: 3}
