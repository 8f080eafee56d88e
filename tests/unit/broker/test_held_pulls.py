"""Pulls that wait."""

from emberq.broker.held_pulls import SLOT_MS, HeldPull, HeldPulls


def pull(
    topic: str = "T",
    queue_id: int = 0,
    *,
    peer: str = "a",
    offset: int = 5,
    deadline_ms: int = 1000,
) -> HeldPull:
    return HeldPull(("T", queue_id), peer, None, offset, offset, deadline_ms)


def held_of(*pulls: HeldPull) -> HeldPulls:
    held = HeldPulls()
    for each in pulls:
        assert held.hold(each)
    return held


def test_pulls_are_found_by_their_queue_in_the_order_they_came() -> None:
    first, second, other = pull(), pull(peer="b"), pull(queue_id=1)
    held = held_of(first, second, other)

    assert held.waiting_for(("T", 0), 6) == [first, second]
    assert held.waiting_for(("T", 2), 6) == ()
    assert sorted(held.queues()) == [("T", 0), ("T", 1)]
    assert len(held) == 3


def test_only_what_lies_behind_the_scanned_offset_is_news() -> None:
    waiting = pull(offset=5)
    held = held_of(waiting)

    assert held.waiting_for(("T", 0), 5) == []
    waiting.scanned_offset = 8
    assert held.waiting_for(("T", 0), 8) == []
    assert held.waiting_for(("T", 0), 9) == [waiting]
    assert held.behind(("T", 0), 8) == [waiting]
    assert held.behind(("T", 0), 5) == held.behind(("T", 7), 9) == []
    assert held.of_queue(("T", 0)) == [waiting]


def test_a_removed_pull_is_nowhere() -> None:
    waiting = pull()
    held = held_of(waiting)

    assert held.remove(waiting)
    assert not held.remove(waiting)

    assert len(held) == 0
    assert held.queues() == []
    assert held.due(10_000) == []
    held.drop("a")


def test_pulls_are_due_once_and_never_early() -> None:
    early, late = pull(deadline_ms=1_050), pull(deadline_ms=5_000)
    held = held_of(late, early)

    assert held.due(1_050) == []
    assert held.due(1_050 + SLOT_MS) == [early]
    assert held.due(1_050 + SLOT_MS) == []
    assert held.remove(early)
    assert held.due(100_000) == [late]


def test_a_pull_may_be_held_again_after_it_was_due() -> None:
    waiting = pull(deadline_ms=0)
    held = held_of(waiting)
    held.due(1_000)
    held.remove(waiting)

    assert held.hold(waiting)

    assert held.due(1_000) == [waiting]


def test_a_closed_connection_takes_its_pulls_along() -> None:
    gone, also_gone, stays = pull(), pull(queue_id=1), pull(peer="b")
    held = held_of(gone, also_gone, stays)

    held.drop("a")

    assert list(held) == [stays]


def test_the_number_of_pulls_has_limits() -> None:
    held = HeldPulls(held_max=3, per_connection_max=2)

    assert held.hold(pull())
    assert held.hold(pull())
    assert not held.hold(pull())
    assert held.hold(pull(peer="b"))
    assert not held.hold(pull(peer="c"))
