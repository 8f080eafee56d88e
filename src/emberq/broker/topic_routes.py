"""Where topics are in the whole cluster, as name servers say; remembered for a while."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from emberq.model.route import TopicRoute

FRESH_MAX_MS = 30_000
ROUTES_MAX = 10_000

AskNameServers = Callable[[str], Awaitable[TopicRoute | None]]


class _Known(Struct, frozen=True, eq=False):
    route: TopicRoute
    asked_at_ms: int


class TopicRoutes:
    """A route that cannot be had again stays as it was."""

    def __init__(self, ask: AskNameServers, steady_ms: Callable[[], int]) -> None:
        self._ask = ask
        self._steady_ms = steady_ms
        self._known: dict[str, _Known] = {}

    async def find(self, topic: str) -> TopicRoute | None:
        """The route, at most 30 s old if name servers answer; None: nobody knows the topic."""
        known = self._known.get(topic)
        now = self._steady_ms()
        if known is not None and now - known.asked_at_ms < FRESH_MAX_MS:
            return known.route
        route = await self._ask(topic)
        if route is None:
            return None if known is None else known.route
        self._known.pop(topic, None)  # the oldest answer is the first to be forgotten
        self._known[topic] = _Known(route, now)
        if len(self._known) > ROUTES_MAX:
            del self._known[next(iter(self._known))]
        return route
