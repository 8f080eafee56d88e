"""Why puts are refused, and when they no longer are."""

from emberq.store.admission import Admission, Obstacle
from emberq.store.results import PutStatus


def status(admission: Admission) -> PutStatus | None:
    refused = admission.refused()
    return None if refused is None else refused.status


def test_a_store_takes_messages_only_while_it_is_open() -> None:
    admission = Admission()
    assert status(admission) is PutStatus.SERVICE_NOT_AVAILABLE

    admission.open()
    assert admission.refused() is None

    admission.fail("closed")
    assert admission.refusal == admission.failure == "closed"


def test_of_several_failures_the_first_is_told() -> None:
    admission = Admission()
    admission.open()

    admission.fail("the disk failed")
    admission.fail("the store is closed")

    assert admission.refusal == "the disk failed"


def test_an_obstacle_refuses_puts_until_it_goes_and_is_no_failure() -> None:
    admission = Admission()
    admission.open()

    assert admission.hinder(Obstacle.DISK_FULL, "91%")
    assert not admission.hinder(Obstacle.DISK_FULL, "92%")

    assert status(admission) is PutStatus.SERVICE_NOT_AVAILABLE
    assert (admission.refusal, admission.failure) == ("92%", "")
    assert admission.clear(Obstacle.DISK_FULL)
    assert not admission.clear(Obstacle.DISK_FULL)
    assert admission.refused() is None


def test_all_obstacles_must_go() -> None:
    admission = Admission()
    admission.open()
    admission.hinder(Obstacle.DISK_FULL, "full")
    admission.hinder(Obstacle.NO_ROOM, "no room")

    admission.clear(Obstacle.DISK_FULL)

    assert admission.refusal == "no room"


def test_a_busy_index_is_told_as_a_busy_page_cache() -> None:
    admission = Admission()
    admission.open()
    admission.is_index_busy = True

    assert status(admission) is PutStatus.OS_PAGE_CACHE_BUSY
