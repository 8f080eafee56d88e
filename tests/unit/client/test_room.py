"""Places for messages on their way: never too many, none lost, in order of arrival."""

import asyncio

import pytest

from emberq.client.aio.room import Room

NEVER_S = 60.0


async def turn() -> None:
    """Let everything that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_finds_no_place_waits_for_one_in_order() -> None:
    room = Room(2)
    entered: list[int] = []

    async def come(number: int) -> None:
        await room.enter(NEVER_S)
        entered.append(number)

    tasks = [asyncio.create_task(come(number)) for number in range(4)]
    await turn()
    assert entered == [0, 1]
    assert not room.enter_at_once()

    room.leave()
    await turn()
    assert entered == [0, 1, 2]
    assert room.taken == 2
    room.leave()
    await asyncio.gather(*tasks)
    assert entered == [0, 1, 2, 3]


async def test_who_is_not_patient_enough_takes_no_place() -> None:
    room = Room(1)
    assert room.enter_at_once()

    with pytest.raises(TimeoutError):
        await room.enter(0.0)

    room.leave()
    assert room.taken == 0
    assert room.enter_at_once()


async def test_a_place_given_to_somebody_who_left_goes_to_the_next() -> None:
    room = Room(1)
    assert room.enter_at_once()
    first = asyncio.create_task(room.enter(NEVER_S))
    second = asyncio.create_task(room.enter(NEVER_S))
    await turn()

    room.leave()  # the place is the first one's, who has not run yet
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    await second
    assert room.taken == 1


async def test_emptied_returns_when_the_last_has_left() -> None:
    room = Room(3)
    await room.emptied()
    assert room.enter_at_once()
    assert room.enter_at_once()
    waiting = asyncio.create_task(room.emptied())
    await turn()

    room.leave()
    await turn()
    assert not waiting.done()
    room.leave()
    await waiting


async def test_places_that_are_given_back_together_go_to_whoever_waits_first() -> None:
    room = Room(3)
    for _ in range(3):
        assert room.enter_at_once()
    first = asyncio.create_task(room.enter(NEVER_S))
    second = asyncio.create_task(room.enter(NEVER_S))
    await turn()

    room.leave_together(3)

    await asyncio.gather(first, second)
    assert room.taken == 2
    waiting = asyncio.create_task(room.emptied())
    await turn()
    room.leave_together(2)
    await waiting
    assert room.taken == 0
