"""How far delay levels are delivered, in memory and in the file."""

from emberq.broker.delay_offsets import UNSETTLED_MAX, DelayOffsets
from emberq.model.data_version import DataVersion
from emberq.protocol.bodies.offsets import DelayOffsetTable


def stored(offsets: DelayOffsets, flushed_offset: int) -> dict[int, int]:
    return offsets.table(flushed_offset, 0).offsets


def test_a_level_without_an_offset_begins_at_the_first_message() -> None:
    assert DelayOffsets().next(3) == 0


def test_what_was_stored_is_taken_up() -> None:
    offsets = DelayOffsets(DelayOffsetTable(offsets={1: 7}))

    assert offsets.next(1) == 7
    assert stored(offsets, 0) == {1: 7}
    assert offsets.is_settled


def test_a_delivery_is_stored_once_its_copy_is_durable() -> None:
    offsets = DelayOffsets()
    offsets.advance(1, 2, 100)
    offsets.advance(1, 5, 200)

    assert offsets.next(1) == 5
    assert stored(offsets, 99) == {}
    assert stored(offsets, 150) == {1: 2}
    assert not offsets.is_settled
    assert stored(offsets, 200) == {1: 5}
    assert offsets.is_settled


def test_every_table_has_a_version_of_its_own() -> None:
    offsets = DelayOffsets(DelayOffsetTable(data_version=DataVersion(counter=4)))

    versions = [offsets.table(0, now_ms).data_version for now_ms in (1, 2)]

    assert versions == [
        DataVersion(counter=5, timestamp_ms=1),
        DataVersion(counter=6, timestamp_ms=2),
    ]


def test_a_queue_that_begins_elsewhere_overrules_the_file() -> None:
    offsets = DelayOffsets(DelayOffsetTable(offsets={1: 7}))
    offsets.advance(1, 8, 100)

    offsets.reset(1, 3)

    assert (offsets.next(1), stored(offsets, 0)) == (3, {1: 3})


def test_a_disk_that_never_answers_does_not_fill_the_memory() -> None:
    offsets = DelayOffsets()
    for number in range(UNSETTLED_MAX + 10):
        offsets.advance(1, number + 1, number + 1)

    assert stored(offsets, UNSETTLED_MAX - 1) == {1: UNSETTLED_MAX - 1}
    assert stored(offsets, UNSETTLED_MAX + 9) == {1: UNSETTLED_MAX - 1}
    assert stored(offsets, UNSETTLED_MAX + 10) == {1: UNSETTLED_MAX + 10}
