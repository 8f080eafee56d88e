"""One event per interval, the others counted."""

from emberq.seldom import Seldom


def test_the_first_event_comes_through_and_those_after_it_are_counted() -> None:
    now = 100.0
    seldom = Seldom(10, lambda: now)

    assert seldom.held_back() == 0
    assert [seldom.held_back() for _ in range(3)] == [None, None, None]
    now = 110.0
    assert seldom.held_back() == 3
    now = 120.0
    assert seldom.held_back() == 0
