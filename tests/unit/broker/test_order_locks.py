from emberq.broker.order_locks import LIVE_MAX_MS_DEFAULT, OrderLocks
from emberq.model.queue import MessageQueue

Q0, Q1 = (MessageQueue("brk", queue_id, "T") for queue_id in range(2))


def test_a_free_queue_is_granted_and_another_client_is_refused() -> None:
    locks = OrderLocks()

    assert locks.lock("G", "a", [Q0, Q1], 0) == [Q0, Q1]
    assert locks.lock("G", "b", [Q0], 1_000) == []
    assert locks.owner("G", Q0, 1_000) == "a"


def test_groups_do_not_see_each_others_locks() -> None:
    locks = OrderLocks()

    assert locks.lock("G", "a", [Q0], 0) == [Q0]
    assert locks.lock("H", "b", [Q0], 0) == [Q0]


def test_a_lock_lasts_sixty_seconds_after_its_last_refresh() -> None:
    locks = OrderLocks()
    locks.lock("G", "a", [Q0], 0)
    assert locks.lock("G", "a", [Q0], 50_000) == [Q0]

    assert locks.lock("G", "b", [Q0], 50_000 + LIVE_MAX_MS_DEFAULT) == []
    assert locks.lock("G", "b", [Q0], 50_001 + LIVE_MAX_MS_DEFAULT) == [Q0]


def test_only_the_owner_can_unlock() -> None:
    locks = OrderLocks()
    locks.lock("G", "a", [Q0], 0)

    locks.unlock("G", "b", [Q0])
    assert locks.owner("G", Q0, 0) == "a"
    locks.unlock("G", "a", [Q0, Q1])
    locks.unlock("unknown", "a", [Q0])

    assert locks.owner("G", Q0, 0) is None
    assert len(locks) == 0


def test_a_group_has_locks_while_one_of_them_lives() -> None:
    locks = OrderLocks()
    locks.lock("G", "a", [Q0], 0)

    assert locks.has_locks("G", LIVE_MAX_MS_DEFAULT)
    assert not locks.has_locks("G", LIVE_MAX_MS_DEFAULT + 1)
    assert not locks.has_locks("H", 0)


def test_expired_locks_are_forgotten() -> None:
    locks = OrderLocks(live_max_ms=100)
    locks.lock("G", "a", [Q0], 0)
    locks.lock("G", "a", [Q1], 50)

    locks.expire(101)
    assert len(locks) == 1
    locks.expire(151)
    assert len(locks) == 0


def test_above_the_limit_only_known_queues_are_granted() -> None:
    locks = OrderLocks(locks_max=1)

    assert locks.lock("G", "a", [Q0, Q1], 0) == [Q0]
    assert locks.lock("H", "a", [Q1], 0) == []
    assert locks.lock("G", "a", [Q0], 0) == [Q0]
    assert len(locks) == 1
