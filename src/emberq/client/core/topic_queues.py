"""From a route to the queues that a producer may write and a consumer may read."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from emberq.model.queue import MessageQueue
from emberq.model.route import MASTER_ID, QueueData, TopicRoute
from emberq.model.topic import Permission

_READ, _WRITE = int(Permission.READ), int(Permission.WRITE)


class PublishQueues(Struct, frozen=True, kw_only=True):
    """Where messages of a topic can go."""

    queues: tuple[MessageQueue, ...] = ()
    is_ordered: bool = False


def publish_queues(topic: str, route: TopicRoute) -> PublishQueues:
    """The queues named by the order configuration, else those of every writable broker that has
    a master."""
    if route.order_config:
        return PublishQueues(queues=tuple(_ordered(topic, route.order_config)), is_ordered=True)
    with_master = {broker.broker_name for broker in route.brokers if MASTER_ID in broker.addresses}
    return PublishQueues(
        queues=tuple(
            MessageQueue(data.broker_name, queue_id, topic)
            for data in _by_broker(route)
            if data.permission & _WRITE and data.broker_name in with_master
            for queue_id in range(data.write_queue_count)
        )
    )


def subscribe_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """All readable queues, in the order that allocation counts on; slaves serve them too."""
    return [
        MessageQueue(data.broker_name, queue_id, topic)
        for data in _by_broker(route)
        if data.permission & _READ
        for queue_id in range(data.read_queue_count)
    ]


def template_route(route: TopicRoute, queue_count: int) -> TopicRoute:
    """The route of a topic that the broker will create after this template."""
    return replace(
        route,
        order_config=None,
        queues=[
            replace(
                data,
                read_queue_count=min(queue_count, data.read_queue_count),
                write_queue_count=min(queue_count, data.read_queue_count),
            )
            for data in route.queues
        ],
    )


def broker_addresses(route: TopicRoute) -> Mapping[str, Mapping[int, str]]:
    return {broker.broker_name: broker.addresses for broker in route.brokers}


def is_same_route(old: TopicRoute | None, new: TopicRoute) -> bool:
    """Whether a refresh brought nothing new; the order of brokers and queues means nothing."""
    return old is not None and _comparable(old) == _comparable(new)


def _comparable(route: TopicRoute) -> tuple[object, ...]:
    brokers = sorted(
        (broker.broker_name, sorted(broker.addresses.items())) for broker in route.brokers
    )
    queues = sorted(
        (data.broker_name, data.permission, data.read_queue_count, data.write_queue_count)
        for data in route.queues
    )
    return brokers, queues, route.order_config or None


def _by_broker(route: TopicRoute) -> list[QueueData]:
    return sorted(route.queues, key=lambda data: data.broker_name)


def _ordered(topic: str, config: str) -> list[MessageQueue]:
    """`brokerA:4;brokerB:4`."""
    queues: list[MessageQueue] = []
    for part in filter(None, config.split(";")):
        name, _, count = part.partition(":")
        if count.strip().isdigit():
            queues += (MessageQueue(name, number, topic) for number in range(int(count)))
    return queues
