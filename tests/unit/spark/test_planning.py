"""Plans cover every message exactly once, and limits are kept."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.errors import OffsetOutOfRange
from emberq.model.queue import MessageQueue
from emberq.spark.options import PartitionLimits
from emberq.spark.planning import (
    MERGE_BYTES_MAX,
    MERGE_ROWS_MAX,
    QueueSlice,
    limit_rows,
    new_slices,
    plan_partitions,
    rows_for_bytes,
)

QUEUES = st.builds(MessageQueue, st.sampled_from("ab"), st.integers(0, 3), st.sampled_from("tu"))
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 5_000))
QUEUE = MessageQueue("a", 0, "t")


@st.composite
def ends(draw: st.DrawFn) -> tuple[dict[MessageQueue, int], dict[MessageQueue, int]]:
    start = draw(OFFSETS)
    grown = {queue: offset + draw(st.integers(0, 3_000)) for queue, offset in start.items()}
    return start, {**draw(OFFSETS.filter(lambda fresh: not fresh.keys() & start.keys())), **grown}


LIMITS = st.builds(
    PartitionLimits,
    count_min=st.none() | st.integers(1, 40),
    rows_max=st.none() | st.integers(1, 2_000),
    bytes_max=st.sampled_from([1, 1_000, 100_000, 1 << 30]),
)


@given(ends(), LIMITS)
def test_partitions_cover_what_is_new_exactly_once(
    between: tuple[dict[MessageQueue, int], dict[MessageQueue, int]], limits: PartitionLimits
) -> None:
    start, end = between
    slices = new_slices(start, end)

    partitions = plan_partitions(slices, limits, lambda queue: 100.0)

    covered: dict[MessageQueue, list[tuple[int, int]]] = {}
    for partition in partitions:
        assert len({each.queue.broker_name for each in partition}) == 1
        if limits.rows_max is not None:
            assert sum(each.count for each in partition) <= max(limits.rows_max, 1)
        for each in partition:
            assert each.count > 0
            covered.setdefault(each.queue, []).append((each.first, each.stop))
    for queue, ranges in covered.items():
        ranges.sort()
        assert ranges[0][0] == start.get(queue, 0)
        assert ranges[-1][1] == end[queue]
        assert all(left[1] == right[0] for left, right in pairwise(ranges))
    assert {each.queue for each in slices} == covered.keys()
    total = sum(each.count for each in slices)
    assert len(partitions) >= min(limits.count_min or 0, total)


def test_small_ranges_of_a_broker_are_one_task() -> None:
    slices = new_slices({}, {MessageQueue("a", number, "t"): 10 for number in range(8)})

    (partition,) = plan_partitions(slices, PartitionLimits(), lambda queue: 100.0)

    assert len(partition) == 8
    large = new_slices({}, {QUEUE: MERGE_ROWS_MAX, MessageQueue("a", 1, "t"): 1})
    assert len(plan_partitions(large, PartitionLimits(), lambda queue: 100.0)) == 2


def test_ranges_with_few_but_large_messages_are_tasks_of_their_own() -> None:
    slices = new_slices({}, {MessageQueue("a", number, "t"): 10 for number in range(8)})

    pairs = plan_partitions(slices, PartitionLimits(), lambda queue: MERGE_BYTES_MAX / 20)

    assert [len(partition) for partition in pairs] == [2, 2, 2, 2]


def test_a_thousand_small_queues_are_few_tasks() -> None:
    slices = new_slices({}, {MessageQueue("a", number, "t"): 1_000 for number in range(1_000)})

    partitions = plan_partitions(slices, PartitionLimits(), lambda queue: 200.0)

    assert len(partitions) == 1_000 * 1_000 / MERGE_ROWS_MAX


def test_a_start_behind_the_end_is_an_error() -> None:
    with pytest.raises(OffsetOutOfRange, match="t a/0 has no offset 9"):
        new_slices({QUEUE: 9}, {QUEUE: 8})


@given(ends(), st.integers(1, 5_000))
def test_a_limit_is_kept_and_used_up_and_starves_nobody(
    between: tuple[dict[MessageQueue, int], dict[MessageQueue, int]], rows_max: int
) -> None:
    start, head = between

    end = limit_rows(start, head, rows_max)

    taken = {queue: end[queue] - start.get(queue, 0) for queue in head}
    backlog = {queue: head[queue] - start.get(queue, 0) for queue in head}
    assert all(0 <= taken[queue] <= backlog[queue] for queue in head)
    assert sum(taken.values()) == min(rows_max, sum(backlog.values()))
    waiting = [queue for queue in head if backlog[queue]]
    if rows_max >= len(waiting):
        assert all(taken[queue] for queue in waiting)


WAITING = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=9
)


@given(WAITING, st.lists(st.integers(1, 12), min_size=1))
def test_no_queue_waits_longer_than_it_takes_to_read_a_row_of_each(
    queues: list[tuple[int, int, int]], limits: list[int]
) -> None:
    """However few rows a batch may have, and however many come in meanwhile."""
    names = [MessageQueue("a", number, "t") for number in range(len(queues))]
    start = {name: first for name, (first, _, _) in zip(names, queues, strict=True)}
    head = {name: start[name] + there for name, (_, there, _) in zip(names, queues, strict=True)}
    rows_waited = dict.fromkeys(names, 0)
    for number in range(60):
        end = limit_rows(start, head, limits[number % len(limits)])
        assert end == limit_rows(dict(reversed(start.items())), head, limits[number % len(limits)])
        count = sum(end.values()) - sum(start.values())
        for name in names:
            is_waiting = head[name] > start[name] and end[name] == start[name]
            rows_waited[name] = rows_waited[name] + count if is_waiting else 0
            assert rows_waited[name] < len(names)
        start = end
        head = {name: head[name] + more for name, (_, _, more) in zip(names, queues, strict=True)}


def test_a_limit_by_bytes_that_lets_one_row_through_reads_of_every_queue() -> None:
    queues = [MessageQueue("a", number, "t") for number in range(8)]
    start, head = dict.fromkeys(queues, 0), dict.fromkeys(queues, 1_000)

    for _ in range(16):
        rows = rows_for_bytes(start, head, 1 << 20, lambda each: 4e6)
        start = limit_rows(start, head, rows)

    assert start == dict.fromkeys(queues, 2)


def test_bytes_become_rows_by_what_messages_weigh() -> None:
    head = {QUEUE: 1_000}

    assert rows_for_bytes({}, head, 50_000, lambda queue: 100.0) == 500
    assert rows_for_bytes({}, head, 1, lambda queue: 100.0) == 1
    assert rows_for_bytes({}, head, 10**9, lambda queue: 100.0) == 1_000


def test_a_slice_knows_its_size() -> None:
    assert QueueSlice(QUEUE, 3, 10).count == 7
