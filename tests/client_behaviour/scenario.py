"""The list of behaviours. Each is an async function whose name is the claim."""

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from tests.client_behaviour.server import Server

Play = Callable[[Server], Coroutine[Any, Any, None]]


class Scenario(Struct, frozen=True):
    """One behaviour, and what a server must have for it."""

    name: str
    play: Play
    needs: frozenset[str]


SCENARIOS: list[Scenario] = []


def behaviour(*needs: str) -> Callable[[Play], Play]:
    """Add a function to the list."""

    def add(play: Play) -> Play:
        name = getattr(play, "__name__", repr(play)).replace("_", " ")
        SCENARIOS.append(Scenario(name, play, frozenset(needs)))
        return play

    return add
