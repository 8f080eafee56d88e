"""What of a queue is missing, and what expired before anybody archived it."""

from typing import Any

import pytest

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.pipelines import verify
from emberq.pipelines.backlog import Backlog, QueueBacklog
from emberq.pipelines.verify import Verify, _compared, _report, _span

A, B = MessageQueue("broker-a", 0, "orders"), MessageQueue("broker-a", 1, "orders")
ELSEWHERE = MessageQueue("broker-b", 0, "orders")
OTHER = MessageQueue("broker-a", 0, "refunds")


def counted(offsets: range, *, first: int, end: int, position: int) -> dict[str, Any]:
    """What Spark counts of an archive that has these offsets of a queue, each once."""
    return {
        "rows": len(offsets),
        "distinct": len(offsets),
        "before": sum(offset < first for offset in offsets),
        "beforePosition": sum(offset < position for offset in offsets),
        "inside": sum(first <= offset < end for offset in offsets),
        "oldest": offsets.start,
    }


@pytest.mark.parametrize(
    ("queue", "first", "end", "expected"),
    [
        (A, 0, 900, (0, 500, 0)),  # up to the position, behind which nothing is expected yet
        (A, 200, 900, (200, 500, 200)),
        (A, 700, 900, (700, 700, 500)),  # 200 expired, and the others are not expected yet
        (A, 0, 300, (0, 300, 0)),  # a topic that was made anew
        (A, 900, 900, (900, 900, 500)),  # all of it expired
        (B, 400, 900, (400, 400, 0)),  # a new queue where the archive reads: it had all of them
        (ELSEWHERE, 400, 900, (400, 400, 400)),  # a new broker: nobody knows what it had
        (OTHER, 400, 900, (400, 900, 400)),  # a topic that was never archived
    ],
)
def test_a_span_never_ends_before_it_begins(
    queue: MessageQueue, first: int, end: int, expected: tuple[int, int, int]
) -> None:
    span = _span(queue, first, end, {A: 500})

    assert (span.first, span.end, span.position) == expected


def test_what_is_missing_of_one_queue_is_not_made_up_for_by_another() -> None:
    done = {A: 0, B: 900}
    overtaken, incomplete = _span(A, 400, 400, done), _span(B, 0, 900, done)
    half = counted(range(400, 900), first=0, end=900, position=0)
    compared = [_compared(overtaken, None, None), _compared(incomplete, half, None)]

    report = _report(compared, iter(()), 0, [], compared_to="", has_bodies=False)

    assert [row[3:] for row in report.tables[0].rows] == [[0, 0, 0, 0, 400], [900, 500, 400, 0, 0]]
    assert (report.facts["missing"], report.facts["expired before they were archived"]) == (
        400,
    ) * 2
    assert report.facts["verdict"] == "archive and topics differ"
    assert not report.is_good


def test_messages_that_expired_before_they_were_archived_are_told_as_that() -> None:
    span = _span(A, 400, 900, {A: 100})
    archived = counted(range(100), first=400, end=400, position=100)

    compared = _compared(span, archived, None)
    report = _report([compared], iter(()), 0, [], compared_to="", has_bodies=False)

    assert (compared.missing, compared.expired) == (0, 300)
    assert "expired before they were archived" in report.facts["verdict"]
    assert not report.is_good


def test_a_table_that_is_ahead_of_its_position_has_what_seems_to_have_expired() -> None:
    span = _span(A, 400, 900, {A: 100})
    ahead = counted(range(500), first=400, end=400, position=100)

    compared = _compared(span, ahead, None)

    assert (compared.missing, compared.expired) == (0, 0)


def test_a_gap_in_what_retention_deleted_is_missing_unless_a_filter_made_it() -> None:
    span = _span(A, 400, 900, {A: 900})
    row = counted(range(300, 900), first=400, end=900, position=400) | {"oldest": 0}

    assert _compared(span, row, None).missing == 300
    assert _compared(span, row, 500).missing == 0


def test_a_filter_is_known_even_where_no_message_is_left() -> None:
    span = _span(A, 900, 900, {A: 900})
    every_third = counted(range(0, 900, 3), first=900, end=900, position=900)

    assert _compared(span, every_third, 0).missing == 0


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ({}, 100),
        ({"startingOffsets": "earliest"}, 100),
        ({"startingTimestamp": "2026-01-01"}, 400),
    ],
)
def test_what_lies_before_a_start_that_is_asked_for_has_not_expired(
    source: dict[str, str], position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Backlog([QueueBacklog(A.topic, A.broker_name, A.queue_id, 400, 900)], is_resumed=False)
    monkeypatch.setattr(verify, "backlog_of", lambda *_: there)
    job = Verify(topics=A.topic, path="lake", source=source)

    (span,) = job._spans(None, {A: 100})  # type: ignore[arg-type] # nothing is asked of a session

    assert (span.first, span.position) == (400, position)


@pytest.mark.parametrize(
    "start",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": "group", "consumerGroup": "lake"},
        {"startingOffsets": '{"orders": {"broker-a": {"0": -1}}}'},
    ],
)
def test_a_start_that_moves_on_is_refused_because_nothing_is_left_to_compare(
    start: dict[str, str],
) -> None:
    job = Verify(topics=A.topic, path="lake", source=start)

    for step in (job.plan, job.run):
        with pytest.raises(ConfigError, match="say where the archive began"):
            step()


@pytest.mark.parametrize(
    ("done", "rows", "is_good"),
    [
        (900, range(0), False),  # all expired, and where is what was archived?
        (900, range(900), True),
        (0, range(0), True),
    ],
)
def test_nothing_that_was_compared_does_not_agree(done: int, rows: range, is_good: bool) -> None:
    span = _span(A, done, done, {A: done})
    row = counted(rows, first=done, end=done, position=done) if rows else None

    report = _report(
        [_compared(span, row, None)], iter(()), 0, [], compared_to="", has_bodies=False
    )

    assert report.is_good is is_good
    assert ("agree" in report.facts["verdict"]) is is_good


def test_a_filter_that_nothing_passes_was_compared() -> None:
    span = _span(A, 0, 900, {A: 900})

    report = _report([_compared(span, None, 0)], iter(()), 0, [], compared_to="", has_bodies=False)

    assert report.is_good
