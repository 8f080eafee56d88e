"""The operation queue."""

import pytest

from emberq.broker.transactions import operations
from emberq.broker.transactions.operations import (
    OperationMarks,
    encode_operations,
    parse_operations,
)


def test_offsets_are_written_as_5_5_writes_them() -> None:
    assert list(encode_operations([17, 3, 18], 4096)) == [(b"17,3,18,", 18)]


def test_a_body_ends_before_it_is_too_long() -> None:
    assert list(encode_operations([17, 18, 19], 6)) == [(b"17,18,", 18), (b"19,", 19)]
    assert list(encode_operations([123_456], 1)) == [(b"123456,", 123_456)]
    assert list(encode_operations([], 10)) == []


@pytest.mark.parametrize(
    ("body", "offsets"),
    [
        (b"17", [17]),  # 4.9
        (b"17,18,", [17, 18]),  # 5.x
        (b"0,", [0]),
        (b"", []),
        (b"x,5,-1, 7,9" + b"9" * 30, [5]),
    ],
)
def test_both_forms_are_read(body: bytes, offsets: list[int]) -> None:
    assert parse_operations(body) == offsets


def test_messages_are_needed_until_all_they_name_is_settled() -> None:
    marks = OperationMarks(5)
    marks.loaded([(5, 10), (6, 3)])
    marks.add(7, 12)

    assert marks.advance(10) == 5
    assert marks.advance(11) == 7
    assert marks.advance(13) == 8


def test_nothing_is_forgotten_before_the_queue_is_read() -> None:
    marks = OperationMarks(5)
    marks.add(6, 1)

    assert marks.advance(100) == 5
    marks.loaded([(5, 200)])
    assert marks.advance(100) == 5
    assert marks.advance(201) == 7


def test_only_so_many_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MARKS_MAX", 2)
    marks = OperationMarks(0)
    marks.loaded([])
    for offset, highest in enumerate((1, 9, 2, 3)):
        marks.add(offset, highest)

    assert marks.advance(2) == 1
    assert marks.advance(9) == 1
    assert marks.advance(10) == 4
