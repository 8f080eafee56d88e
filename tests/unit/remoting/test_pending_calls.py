"""Waiters by opaque: who is answered, who gives up, and how many there may be."""

from itertools import count

import pytest

from emberq.errors import TooManyPendingCalls
from emberq.remoting import pending_calls
from emberq.remoting.pending_calls import PendingCalls, next_opaque


def test_answers_find_their_waiters_in_any_order() -> None:
    calls: PendingCalls[str] = PendingCalls(10)
    first, second = calls.add("first", 1.0), calls.add("second", 1.0)

    assert calls.take(second) == "second"
    assert calls.take(first) == "first"
    assert calls.take(first) is None
    assert len(calls) == 0


def test_an_opaque_nobody_waits_for_finds_nobody() -> None:
    calls: PendingCalls[str] = PendingCalls(10)
    opaque = calls.add("waiter", 1.0)

    assert calls.take(opaque + 1) is None
    assert calls.take(-opaque - 1) is None
    assert len(calls) == 1


def test_the_limit_is_reached_and_free_again_after_an_answer() -> None:
    calls: PendingCalls[str] = PendingCalls(2)
    first = calls.add("first", 1.0)
    calls.add("second", 1.0)

    with pytest.raises(TooManyPendingCalls):
        calls.add("third", 1.0)
    assert len(calls) == 2

    calls.take(first)
    calls.add("third", 1.0)


def test_exactly_those_whose_deadline_has_come_expire() -> None:
    calls: PendingCalls[str] = PendingCalls(10)
    for name, deadline in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        calls.add(name, deadline)

    assert calls.next_deadline() == 1.0
    assert calls.take_expired(0.5) == []
    assert sorted(calls.take_expired(2.0)) == ["b", "c"]
    assert calls.next_deadline() == 3.0
    assert calls.take_all() == ["a"]
    assert calls.next_deadline() is None


def test_opaques_stay_within_31_bits_and_skip_those_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_calls, "_opaques", count(0x7FFFFFFF))
    calls: PendingCalls[str] = PendingCalls(10)
    assert calls.add("last", 1.0) == 0x7FFFFFFF
    assert calls.add("first", 1.0) == 0

    monkeypatch.setattr(pending_calls, "_opaques", count(0x7FFFFFFF))
    assert calls.add("next", 1.0) == 1


def test_opaques_differ_within_a_process() -> None:
    assert next_opaque() != next_opaque()
