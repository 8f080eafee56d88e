"""Which files are joined with which."""

from collections.abc import Sequence
from datetime import date

from emberq.pipelines.tables import DataFile
from emberq.pipelines.tables.compaction import groups_to_join, older_files

MIB = 1024 * 1024


def file(number: int, size_bytes: int = MIB, day: str = "2026-11-17") -> DataFile:
    return DataFile(
        path=f"date={day}/{number}.parquet",
        rows=1,
        size_bytes=size_bytes,
        partition={"date": day},
        first_offset=number,
    )


def numbers(groups: list[list[DataFile]]) -> list[list[int]]:
    return [[each.first_offset for each in group] for group in groups]


def test_small_files_are_put_together_in_order_until_they_are_large_enough() -> None:
    files = [file(number) for number in (4, 1, 3, 0, 2)]

    assert numbers(groups_to_join(files, 2 * MIB, 3 * MIB)) == [[0, 1, 2], [3, 4]]


def test_large_files_and_single_ones_are_left_alone() -> None:
    files = [file(0), file(1, 5 * MIB), file(2, day="2026-11-18"), file(3, day="2026-11-19")]

    assert groups_to_join(files, 5 * MIB, 8 * MIB) == []


def test_files_of_different_kinds_are_not_joined() -> None:
    asked: list[int] = []

    def kinds(together: Sequence[DataFile]) -> list[int]:
        asked.extend(each.first_offset for each in together)
        return [each.first_offset % 2 for each in together]

    files = [*(file(number) for number in range(4)), file(9, day="2026-11-18")]

    assert numbers(groups_to_join(files, 2 * MIB, 8 * MIB, kinds)) == [[0, 2], [1, 3]]
    assert asked == [0, 1, 2, 3]  # 9 is alone in its partition: nothing needs to be read


def test_days_before_the_oldest_one_are_old() -> None:
    files = [file(0, day="2026-11-16"), file(1, day="2026-11-17")]

    assert older_files(files, date(2026, 11, 17)) == files[:1]
    assert older_files(files, None) == []
