from collections.abc import Callable

from emberq.remoting.backlog import Backlog

TURN_MAX_S = 10.0


class Turns:
    """A clock that work moves, and turns that come when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.scheduled: list[Callable[[], None]] = []
        self.done: list[str] = []
        self.backlog = Backlog(TURN_MAX_S, lambda: self.now, self.scheduled.append)

    def add(self, name: str, cost_s: float, times: int = 1) -> None:
        def work() -> None:
            self.now += cost_s
            self.done.append(name)
            if times > 1:
                self.add(name, cost_s, times - 1)

        self.backlog.add(work)

    def turn(self) -> list[str]:
        [serve] = self.scheduled
        self.scheduled.clear()
        self.done.clear()
        serve()
        return list(self.done)


def test_all_that_waits_is_done_in_one_turn_if_it_is_little() -> None:
    turns = Turns()
    turns.add("a", 1.0)
    turns.add("b", 1.0)
    assert len(turns.backlog) == 2

    assert turns.turn() == ["a", "b"]
    assert not turns.backlog
    assert turns.scheduled == []


def test_a_turn_ends_in_time_and_the_next_goes_on_where_it_ended() -> None:
    turns = Turns()
    for name in "abcd":
        turns.add(name, 6.0)

    assert turns.turn() == ["a", "b"]
    assert turns.turn() == ["c", "d"]


def test_who_comes_back_waits_behind_the_others_and_for_the_next_turn() -> None:
    turns = Turns()
    turns.add("a", 1.0, times=3)
    turns.add("b", 1.0, times=2)

    assert turns.turn() == ["a", "b"]
    assert turns.turn() == ["a", "b"]
    assert turns.turn() == ["a"]
    assert not turns.backlog


def test_what_comes_later_is_scheduled_again() -> None:
    turns = Turns()
    turns.add("a", 1.0)
    turns.turn()

    turns.add("b", 1.0)

    assert turns.turn() == ["b"]
