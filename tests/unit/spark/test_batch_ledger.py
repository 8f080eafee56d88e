"""What decisions about a batch come to, and where its half messages are."""

import pickle
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberq.errors import ClientError, RecordError
from emberq.model.queue import MessageQueue
from emberq.spark.batch_ledger import (
    AbortDecision,
    CommitDecision,
    Decision,
    WorkSign,
    check_is_same_write,
    counted_signs,
    decode_decision,
    difference,
    encode_decision,
    is_held,
    outcome,
)
from emberq.spark.staged_halves import (
    PART_HALVES_MAX,
    Halves,
    QueueHalves,
    Staged,
    decode_part,
    encode_part,
    parts_of,
)

WRITES = st.lists(st.sampled_from("abcde"), unique=True, max_size=3).map(tuple)
DECISIONS = st.lists(
    st.one_of(
        st.builds(
            CommitDecision,
            id=st.uuids().map(str),
            writes=WRITES,
            parts=st.integers(0, 9),
            rows=st.dictionaries(st.sampled_from(["orders", "audit"]), st.integers(1, 9)),
        ),
        st.builds(AbortDecision, id=st.uuids().map(str), writes=WRITES),
    ),
    max_size=8,
)
INT64 = st.integers(0, 2**62)


def commit(*writes: str) -> CommitDecision:
    return CommitDecision(id="-".join(writes), writes=writes, parts=1)


def abort(*writes: str) -> AbortDecision:
    return AbortDecision(id="x", writes=writes)


@given(DECISIONS, DECISIONS)
def test_a_commit_that_holds_holds_whatever_is_decided_later(
    before: list[Decision], later: list[Decision]
) -> None:
    known = outcome(before)

    after = outcome(before + later)

    if known.commit is not None:
        assert after == known


@given(DECISIONS, st.sampled_from("abcde"))
def test_a_write_is_never_both_committed_and_dropped_nor_comes_back(
    decisions: list[Decision], write: str
) -> None:
    was_dropped = False
    for count in range(len(decisions) + 1):
        found = outcome(decisions[:count])
        assert not (found.is_committed(write) and found.is_dropped(write))
        assert not (was_dropped and found.is_committed(write))
        was_dropped |= found.is_dropped(write)


def test_the_first_of_two_drivers_counts() -> None:
    found = outcome([commit("a", "b"), commit("c", "d")])

    assert found.is_committed("a")
    assert found.is_dropped("c")


def test_an_abort_keeps_a_later_commit_of_its_writes_out_and_no_other() -> None:
    found = outcome([abort("a"), commit("a", "b"), commit("c")])

    assert found.commit == commit("c")
    assert found.is_dropped("a")
    assert found.is_dropped("b")


@given(DECISIONS)
def test_decisions_read_as_they_were_written(decisions: list[Decision]) -> None:
    assert [decode_decision(encode_decision(each)) for each in decisions] == decisions


def test_a_commit_that_was_written_before_rows_were_counted_is_read() -> None:
    body = b'{"kind":"commit","id":"x","writes":["a"],"parts":1}'

    assert decode_decision(body) == CommitDecision(id="x", writes=("a",), parts=1)
    assert encode_decision(CommitDecision(id="x", writes=("a",), parts=1)) == body


def test_a_name_that_another_write_has_used_is_told() -> None:
    known = CommitDecision(id="x", writes=("a",), parts=1, rows={"orders": 3})

    check_is_same_write("n-0", known, {"orders": 3})
    for rows in ({"orders": 4}, {"audit": 3}, {"orders": 3, "audit": 1}):
        with pytest.raises(ClientError, match="n-0 was committed with 3 rows for orders, and"):
            check_is_same_write("n-0", known, rows)


def test_how_a_repeated_batch_differs_is_told() -> None:
    known = CommitDecision(id="1", writes=("w",), parts=1, rows={"orders": 3})

    assert difference("q-4", known, {"orders": 3}) == ""
    assert difference("q-4", known, {"orders": 5}) == (
        "q-4 was committed with 3 rows for orders, and this write has 5 rows for orders: "
        "none of these is written"
    )


def test_a_write_without_rows_and_a_commit_that_says_nothing_of_them_agree_with_any() -> None:
    known = CommitDecision(id="x", writes=("a",), parts=1, rows={"orders": 3})

    check_is_same_write("n-0", known, {})
    check_is_same_write("n-0", commit("a"), {"orders": 4})


@pytest.mark.parametrize("body", [b"", b"{}", b'{"kind":"maybe"}', b"\xff"])
def test_other_messages_are_no_decisions(body: bytes) -> None:
    with pytest.raises(RecordError):
        decode_decision(body)


@given(
    st.dictionaries(
        st.builds(MessageQueue, st.text(max_size=5), st.integers(0, 99), st.text(max_size=5)),
        st.lists(st.tuples(INT64, INT64), min_size=1, max_size=20),
        max_size=4,
    )
)
def test_a_part_reads_as_it_was_written(places: dict[MessageQueue, list[tuple[int, int]]]) -> None:
    part = {queue: halves(*pairs) for queue, pairs in places.items()}

    assert decode_part(encode_part(part)) == part


@given(st.binary(max_size=40))
def test_other_bytes_are_no_part(body: bytes) -> None:
    with pytest.raises(RecordError):
        decode_part(body)


def test_what_a_task_has_staged_comes_to_the_driver_as_it_was_and_small() -> None:
    staged = Staged(batch_key="query-7")
    halves = QueueHalves(
        array("q", range(10**9, 10**9 + 450 * 100_000, 450)),
        array("q", range(10**6, 10**6 + 100_000)),
    )
    staged.add("w", {MessageQueue("b", 0, "orders"): halves})
    staged.count_rows()

    sent = pickle.dumps(staged)

    assert pickle.loads(sent) == staged
    assert len(sent) < 20_000  # plain it would be 1.6 MB


def test_a_large_batch_is_cut_into_parts_that_keep_each_queue_in_order() -> None:
    one, two = MessageQueue("a", 0, "t"), MessageQueue("b", 1, "t")
    count = PART_HALVES_MAX + 10
    staged = [
        Staged(batch_key="k", writes=["w"], halves={one: numbered(0, count), two: numbered(0, 5)}),
        Staged(batch_key="k", writes=["v"], halves={one: numbered(count, count + 7)}),
    ]

    parts = list(parts_of(staged))

    assert [sum(map(len, part.values())) for part in parts] == [PART_HALVES_MAX, 22]
    assert joined(parts, one) == list(range(count + 7))
    assert joined(parts, two) == list(range(5))


def halves(*pairs: tuple[int, int]) -> QueueHalves:
    found = QueueHalves()
    for log_offset, half_offset in pairs:
        found.add(log_offset, half_offset)
    return found


def numbered(begin: int, end: int) -> QueueHalves:
    return QueueHalves(array("q", range(begin, end)), array("q", range(begin, end)))


def joined(parts: list[Halves], queue: MessageQueue) -> list[int]:
    return [offset for part in parts for offset in part.get(queue, QueueHalves()).log_offsets]


def claim(offset: int, stored_at_ms: int) -> WorkSign:
    return WorkSign(offset, stored_at_ms, is_claim=True)


def test_a_claim_counts_when_nobody_has_worked_for_the_time_of_a_lease() -> None:
    decision, early, good, late = WorkSign(1, 1000), claim(2, 1099), claim(3, 1100), claim(4, 1101)

    assert counted_signs([late, good, early, decision], 100) == [decision, good]


def test_claims_that_come_early_keep_nobody_from_the_work() -> None:
    early = [claim(2 + number, 1000 + 30 * number) for number in range(4)]

    assert counted_signs([WorkSign(1, 1000), *early, claim(9, 1110)], 100)[-1] == claim(9, 1110)


def test_who_works_keeps_the_lease() -> None:
    work = [WorkSign(number, 1000 + 90 * number) for number in range(4)]

    assert counted_signs([*work, claim(9, 1300)], 100) == work


def test_a_driver_waits_only_for_a_process_that_has_claimed_its_batch_and_works() -> None:
    decided, noted = WorkSign(0, 0), WorkSign(1, 1_000)
    claimed, worked = WorkSign(2, 121_000, is_claim=True), WorkSign(3, 150_000)

    def is_driver_kept_out(*before: WorkSign, at_ms: int) -> bool:
        own = [WorkSign(9, at_ms, id="own"), WorkSign(10, at_ms + 5_000, id="own")]  # twice
        return is_held(counted_signs([*before, *own], 120_000), "own", 120_000)

    assert not is_driver_kept_out(decided, noted, at_ms=2_000)
    assert is_driver_kept_out(decided, noted, claimed, at_ms=122_000)
    assert is_driver_kept_out(decided, noted, claimed, worked, at_ms=250_000)
    assert not is_driver_kept_out(decided, noted, claimed, worked, at_ms=270_000)
