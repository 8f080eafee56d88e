"""Queues of a route."""

from emberq.client.core.topic_queues import (
    broker_addresses,
    is_same_route,
    publish_queues,
    subscribe_queues,
    template_route,
)
from emberq.model.queue import MessageQueue
from emberq.model.route import BrokerData, QueueData, TopicRoute


def broker(name: str, *ids: int) -> BrokerData:
    return BrokerData(addresses={each: f"{name}:{each}" for each in ids}, broker_name=name)


def queue_data(name: str, permission: int = 6, read: int = 2, write: int = 2) -> QueueData:
    return QueueData(
        broker_name=name, permission=permission, read_queue_count=read, write_queue_count=write
    )


def test_producers_write_to_masters_with_the_write_bit() -> None:
    route = TopicRoute(
        brokers=[broker("c", 0), broker("a", 0, 1), broker("b", 1), broker("d", 0)],
        queues=[queue_data("c"), queue_data("a", write=1), queue_data("b"), queue_data("d", 4)],
    )

    assert publish_queues("T", route).queues == (
        MessageQueue("a", 0, "T"),
        MessageQueue("c", 0, "T"),
        MessageQueue("c", 1, "T"),
    )


def test_an_order_configuration_names_the_queues_itself() -> None:
    route = TopicRoute(
        brokers=[broker("a", 0)], queues=[queue_data("a", write=8)], order_config="b:1;a:2;"
    )

    found = publish_queues("T", route)

    assert found.is_ordered
    assert found.queues == (
        MessageQueue("b", 0, "T"),
        MessageQueue("a", 0, "T"),
        MessageQueue("a", 1, "T"),
    )


def test_consumers_read_what_has_the_read_bit_with_or_without_a_master() -> None:
    route = TopicRoute(
        brokers=[broker("b", 1), broker("a", 0)],
        queues=[queue_data("b", read=1), queue_data("a", permission=2)],
    )

    assert subscribe_queues("T", route) == [MessageQueue("b", 0, "T")]


def test_a_template_gives_at_most_the_queues_asked_for() -> None:
    route = TopicRoute(brokers=[broker("a", 0)], queues=[queue_data("a", 7, read=8, write=8)])

    assert len(publish_queues("new", template_route(route, 4)).queues) == 4
    assert len(publish_queues("new", template_route(route, 16)).queues) == 8


def test_the_order_of_a_route_means_nothing() -> None:
    one = TopicRoute(
        brokers=[broker("a", 0), broker("b", 0)], queues=[queue_data("a"), queue_data("b")]
    )
    other = TopicRoute(brokers=one.brokers[::-1], queues=one.queues[::-1])

    assert is_same_route(one, other)
    assert not is_same_route(None, one)
    assert not is_same_route(one, TopicRoute(brokers=one.brokers, queues=one.queues[:1]))
    assert broker_addresses(one) == {"a": {0: "a:0"}, "b": {0: "b:0"}}
