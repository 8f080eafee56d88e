"""`emberq.store.timers.slot_order`: by millisecond, then as they came."""

from hypothesis import given
from hypothesis import strategies as st

from emberq.store.timers.slot_order import SlotOrder, Waiting


def waiting(number: int) -> Waiting:
    return Waiting(number, 300, 1, 1_700_000_000_000, -7)


def taken(order: SlotOrder, now_ms: int, count_max: int = 100) -> list[int]:
    due = order.due(now_ms, count_max)
    order.done(due)
    return [entry.log_offset for _, entry in due]


def test_messages_come_by_their_time_and_then_as_they_were_added() -> None:
    order = SlotOrder()
    for number, due_ms in enumerate([30, 10, 20, 10]):
        order.add(due_ms, waiting(number))

    assert order.next_due_ms() == 10
    assert taken(order, 9) == []
    assert taken(order, 20) == [1, 3, 2]
    assert len(order) == 1
    assert taken(order, 99) == [0]
    assert not order
    assert order.next_due_ms() is None


def test_what_is_not_delivered_is_due_again() -> None:
    order = SlotOrder()
    for number in range(5):
        order.add(10 + number // 3, waiting(number))

    due = order.due(99, 4)
    order.done(due[:2])

    assert [entry.log_offset for _, entry in order.due(99, 9)] == [2, 3, 4]


def test_messages_that_come_meanwhile_do_not_disturb() -> None:
    order = SlotOrder()
    order.add(20, waiting(1))

    due = order.due(99, 4)
    order.add(10, waiting(0))
    order.add(20, waiting(2))
    order.done(due)

    assert taken(order, 99) == [0, 2]


def test_an_order_follows_another_one() -> None:
    first, second = SlotOrder(), SlotOrder()
    first.add(10, waiting(0))
    second.add(10, waiting(1))
    second.add(5, waiting(2))
    second.add(5, waiting(3))
    second.done(second.due(5, 1))

    first.follow_with(second)

    assert taken(first, 99) == [3, 0, 1]


def test_a_message_keeps_what_is_known_of_it() -> None:
    order = SlotOrder()
    order.add(10, Waiting(2**40, 4_000_000, 7, 1_700_000_000_000, -(2**31)))

    assert list(order) == [(10, Waiting(2**40, 4_000_000, 7, 1_700_000_000_000, -(2**31)))]


@given(st.lists(st.integers(1, 20)), st.integers(1, 7), st.data())
def test_every_message_comes_once_in_order(
    times: list[int], count_max: int, data: st.DataObject
) -> None:
    order = SlotOrder()
    for number, due_ms in enumerate(times):
        order.add(due_ms, waiting(number))
    found = []

    while order:
        due = order.due(99, count_max)
        done = data.draw(st.integers(1, len(due)))
        order.done(due[:done])
        found += [(due_ms, entry.log_offset) for due_ms, entry in due[:done]]

    assert found == sorted((due_ms, number) for number, due_ms in enumerate(times))
