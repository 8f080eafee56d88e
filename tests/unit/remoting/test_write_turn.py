"""Connections that are written together."""

import logging

import pytest

from emberq.remoting.write_turn import WAITING_MAX, WriteTurn
from tests.support.waiting import loop_turns


class Writer:
    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self._error = error

    def flush(self) -> None:
        self.count += 1
        if self._error is not None:
            raise self._error


async def test_what_is_added_is_written_when_the_turn_ends() -> None:
    turn, first, second = WriteTurn(), Writer(), Writer()
    turn.add(first)
    turn.add(second)
    assert first.count == 0

    await loop_turns(1)

    assert (first.count, second.count) == (1, 1)


async def test_whoever_made_the_answers_may_have_them_written_at_once() -> None:
    turn, writer = WriteTurn(), Writer()
    turn.add(writer)

    turn.write()
    await loop_turns(1)

    assert writer.count == 1


async def test_the_first_of_a_turn_writes_itself_and_the_others_wait() -> None:
    turn, other = WriteTurn(), Writer()
    assert not turn.join(Writer())

    assert turn.join(other)
    assert other.count == 0
    await loop_turns(1)

    assert other.count == 1
    assert not turn.join(Writer())


async def test_only_so_many_wait() -> None:
    turn, writers = WriteTurn(), [Writer() for _ in range(WAITING_MAX + 1)]
    turn.join(Writer())

    for writer in writers:
        turn.join(writer)

    assert [writer.count for writer in writers] == [1] * WAITING_MAX + [0]


async def test_a_connection_in_trouble_does_not_keep_others_from_writing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn, other = WriteTurn(), Writer()
    turn.add(Writer(RuntimeError("broken")))
    turn.add(other)

    turn.write()

    assert other.count == 1
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
