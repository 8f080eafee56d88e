"""What has become of each half message."""

import pytest

from emberq.broker.transactions import half_ledger
from emberq.broker.transactions.half_ledger import HalfLedger, HalfState


def ledger_of(count: int, base: int = 0) -> HalfLedger:
    ledger = HalfLedger(base)
    for offset in range(base, base + count):
        ledger.stored(offset)
    return ledger


def test_half_messages_are_open_until_they_are_ended() -> None:
    ledger = ledger_of(3, base=7)

    ledger.settle(8, HalfState.ENDED)

    assert [ledger.state(offset) for offset in (7, 8, 9)] == [
        HalfState.OPEN,
        HalfState.ENDED,
        HalfState.OPEN,
    ]
    assert (ledger.next_open(7), ledger.next_open(8), ledger.next_open(10)) == (7, 9, 10)
    assert ledger.advance() == 7


def test_the_base_passes_what_is_settled_in_whatever_order() -> None:
    ledger = ledger_of(4)

    for offset in (2, 0, 1):
        ledger.settle(offset, HalfState.ENDED)
    assert ledger.advance() == 3
    ledger.settle(3, HalfState.PARKED)

    assert ledger.advance() == ledger.end == 4


def test_settled_ones_are_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_ledger, "REMEMBERED_MAX", 10)
    ledger = ledger_of(30)
    for offset in range(30):
        ledger.settle(offset, HalfState.ENDED)

    ledger.advance()

    assert ledger.state(19) is None
    assert ledger.state(20) is HalfState.ENDED
    assert ledger.end == 30


def test_a_copy_stands_for_its_original_and_so_does_its_own_copy() -> None:
    ledger = ledger_of(1)

    ledger.copied(0, 1)
    ledger.copied(1, 2)

    assert ledger.newest_copy(0) == ledger.newest_copy(1) == ledger.newest_copy(2) == 2
    assert ledger.state(1) is HalfState.COPIED
    assert ledger.advance() == 2


def test_only_so_many_copies_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_ledger, "COPIES_MAX", 2)
    ledger = ledger_of(3)

    for offset in range(3):
        ledger.copied(offset, 10 + offset)

    assert [ledger.newest_copy(offset) for offset in range(3)] == [0, 11, 12]


def test_the_window_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_ledger, "WINDOW_MAX", 3)
    ledger = ledger_of(2)

    seen = [ledger.is_full]
    ledger.stored(2)
    seen.append(ledger.is_full)
    ledger.settle(0, HalfState.ENDED)
    ledger.advance()

    assert [*seen, ledger.is_full] == [False, True, False]


def test_what_the_log_lost_is_no_longer_open() -> None:
    ledger = ledger_of(5)
    ledger.settle(1, HalfState.ENDED)

    assert ledger.lost_before(3) == 2
    assert ledger.lost_before(3) == 0
    assert ledger.advance() == 3


def test_a_queue_that_begins_beyond_all_that_is_known_is_taken_as_it_is() -> None:
    ledger = ledger_of(1)

    ledger.lost_before(100)

    assert ledger.advance() == 100
