"""Starts of queries are set once."""

import pytest

from emberq.broker import scan_starts
from emberq.broker.scan_starts import ScanStarts
from emberq.errors import RequestRejected


def test_a_start_that_is_set_stays() -> None:
    starts = ScanStarts()

    assert starts.pin("G", {"T": {0: 5}})
    assert starts.pin("G", {"T": {0: 9, 1: 7}})
    assert not starts.pin("G", {"T": {0: 11}})

    assert starts.of("G", "T") == {0: 5, 1: 7}
    assert starts.of("H", "T") == {}


def test_a_cleared_topic_can_be_set_again() -> None:
    starts = ScanStarts()
    starts.pin("G", {"T": {0: 5}, "U": {0: 6}})

    assert starts.clear("G", ["T", "V"])
    assert not starts.clear("G", ["T"])

    assert starts.of("G", "T") == {}
    assert starts.of("G", "U") == {0: 6}
    assert starts.pin("G", {"T": {0: 8}})


def test_starts_go_with_their_topic_and_with_their_group() -> None:
    starts = ScanStarts()
    for group in ("G", "H"):
        starts.pin(group, {"T": {0: 5}, "U": {0: 6}})

    assert starts.remove_topic("T")
    assert not starts.remove_topic("T")
    assert starts.remove_group("H")
    assert not starts.remove_group("H")

    assert starts.table().groups == {"G": {"U": {0: 6}}}


def test_the_table_brings_everything_back() -> None:
    starts = ScanStarts()
    starts.pin("G", {"T": {0: 5}})
    table = starts.table()
    starts.pin("G", {"T": {1: 6}})

    assert ScanStarts(table).of("G", "T") == {0: 5}


def test_limits_refuse_what_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_starts, "STARTS_PER_GROUP_MAX", 2)
    monkeypatch.setattr(scan_starts, "GROUPS_MAX", 1)
    starts = ScanStarts()
    starts.pin("G", {"T": {0: 5}})

    with pytest.raises(RequestRejected):
        starts.pin("G", {"T": {1: 1, 2: 2}})
    with pytest.raises(RequestRejected):
        starts.pin("H", {"T": {0: 1}})
    assert starts.of("G", "T") == {0: 5}
