import pytest

from emberq.broker import topic_routes
from emberq.broker.topic_routes import FRESH_MAX_MS, TopicRoutes
from emberq.model.route import TopicRoute


class NameServers:
    def __init__(self) -> None:
        self.now_ms = 0
        self.asked: list[str] = []
        self.answer: TopicRoute | None = TopicRoute()
        self.routes = TopicRoutes(self.ask, lambda: self.now_ms)

    async def ask(self, topic: str) -> TopicRoute | None:
        self.asked.append(topic)
        return self.answer


async def test_a_route_is_asked_for_once_in_a_while() -> None:
    servers = NameServers()

    first = await servers.routes.find("T")
    again = await servers.routes.find("T")
    servers.now_ms = FRESH_MAX_MS
    servers.answer = TopicRoute(order_config="new")
    later = await servers.routes.find("T")

    assert first is again is not None
    assert later is servers.answer
    assert servers.asked == ["T", "T"]


async def test_a_route_that_cannot_be_had_again_stays() -> None:
    servers = NameServers()
    first = await servers.routes.find("T")
    servers.now_ms, servers.answer = FRESH_MAX_MS, None

    assert await servers.routes.find("T") is first
    assert await servers.routes.find("U") is None
    assert await servers.routes.find("U") is None
    assert servers.asked == ["T", "T", "U", "U"]


async def test_the_oldest_answer_is_forgotten_above_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_routes, "ROUTES_MAX", 2)
    servers = NameServers()

    for topic in ("T", "U", "V", "U", "T"):
        await servers.routes.find(topic)

    assert servers.asked == ["T", "U", "V", "T"]
