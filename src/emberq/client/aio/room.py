"""Room for so many at once: who finds none waits for a place, in the order of arrival."""

import asyncio
from collections import deque


class Room:
    """Entering costs next to nothing while there are places."""

    def __init__(self, places: int) -> None:
        self._places = places
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._emptied: asyncio.Event | None = None

    def enter_at_once(self) -> bool:
        """Take a place if there is one that nobody waits for."""
        if self.taken >= self._places or self._waiting:
            return False
        self.taken += 1
        return True

    async def enter(self, timeout_s: float) -> None:
        """Raises TimeoutError."""
        if self.enter_at_once():
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                await place
        except BaseException:
            if place.cancelled():
                self._forget(place)
            else:  # it was given to us all the same
                self.leave()
            raise

    def leave(self) -> None:
        """Give the place to whoever waits first."""
        waiting = self._waiting
        while waiting:
            place = waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.taken -= 1
        if not self.taken and self._emptied is not None:
            self._emptied.set()

    def leave_together(self, count: int) -> None:
        """Give back several places."""
        while count and self._waiting:
            self.leave()
            count -= 1
        if count:
            self.taken -= count - 1
            self.leave()

    async def emptied(self) -> None:
        """Return when nobody is inside."""
        while self.taken:
            self._emptied = asyncio.Event()
            await self._emptied.wait()

    def _forget(self, place: "asyncio.Future[None]") -> None:
        if place in self._waiting:
            self._waiting.remove(place)
