"""Scans have a share of the time, in the order of their arrival."""

from collections.abc import Callable

from emberq.broker.scan_turns import ScanTurns


def named(name: str, served: list[str]) -> Callable[[], None]:
    return lambda: served.append(name)


def test_a_scan_waits_as_long_as_the_one_before_it_took() -> None:
    turns = ScanTurns(share_max=0.5)
    assert turns.is_free(10.0)

    turns.served(10.0, took_s=0.25, size_bytes=0)

    assert not turns.is_free(10.2)
    assert turns.is_free(10.25)


def test_those_who_wait_are_served_in_order() -> None:
    turns = ScanTurns()
    served: list[str] = []
    turns.served(0.0, took_s=1.0, size_bytes=0)
    turns.wait(named("first", served))
    turns.wait(named("second", served))

    assert turns.pause_s(0.25) == 0.75
    assert turns.next(0.5) is None
    for _ in range(2):
        serve = turns.next(1.0)
        assert serve is not None
        serve()

    assert served == ["first", "second"]
    assert turns.pause_s(1.0) is None


def test_who_comes_while_others_wait_is_not_served_before_them() -> None:
    turns = ScanTurns()
    turns.wait(named("waiting", []))

    assert not turns.is_free(100.0)


def test_no_more_wait_than_the_limit_says() -> None:
    turns = ScanTurns(waiting_max=1)
    assert not turns.is_full

    turns.wait(named("one", []))

    assert turns.is_full


def test_bytes_that_leave_later_count_as_work() -> None:
    turns = ScanTurns()

    turns.served(0.0, took_s=0.0, size_bytes=2_000_000_000)

    assert turns.pause_s(0.0) is None
    assert not turns.is_free(0.9)
