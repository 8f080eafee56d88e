"""Which of the routes that a client knows say where a broker is."""

from typing import cast

import pytest

from emberq.client.aio.name_servers import NameServers
from emberq.client.aio.routes import Routes
from emberq.errors import TopicNotFound
from emberq.model.route import BrokerData, QueueData, TopicRoute


def route(*addresses: str) -> TopicRoute:
    return TopicRoute(
        brokers=[BrokerData(broker_name="b", addresses=dict(enumerate(addresses)))],
        queues=[QueueData(broker_name="b", permission=6, read_queue_count=1)],
    )


class Known:
    """A name server's topics."""

    def __init__(self, **topics: TopicRoute) -> None:
        self.topics = topics

    async def route(self, topic: str, timeout_s: float) -> TopicRoute:
        if topic not in self.topics:
            raise TopicNotFound(topic)
        return self.topics[topic]


async def test_a_broker_is_where_the_newest_route_says() -> None:
    """Whatever is remembered of a topic that is gone."""
    known = Known(kept=route("10.0.0.1:1"), gone=route("10.0.0.1:1", "10.0.0.1:2"))
    routes = Routes(cast(NameServers, known), 1.0)
    await routes.refresh_all(["kept", "gone"])

    known.topics = {"kept": route("10.0.0.2:1")}
    await routes.refresh_all(["kept", "gone"])

    assert routes.addresses_of("b") == {0: "10.0.0.2:1"}


async def test_a_topic_whose_broker_is_away_keeps_its_route() -> None:
    """So that producers and consumers go on."""
    known = Known(kept=route("10.0.0.1:1"))
    routes = Routes(cast(NameServers, known), 1.0)
    await routes.refresh("kept")

    known.topics = {}
    with pytest.raises(TopicNotFound):
        await routes.refresh("kept")

    assert routes.master_of("b") == "10.0.0.1:1"
