"""A name server and brokers as processes, and topics in them that belong to one test."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from emberq import Message, MessageQueue, Producer
from emberq.errors import TopicNotFound
from emberq.protocol.headers.nameserver import DeleteTopicInNameServer
from emberq.protocol.headers.topics import DeleteTopicInBroker
from emberq.spark.broker_place import BrokerPlace
from emberq.spark.links import Link
from emberq.spark.options import ConnectionOptions, parse_source
from emberq.testing.local_broker import LocalBroker, run_broker
from emberq.testing.local_nameserver import run_name_server

DEADLINE_S = 120.0


class Cluster:
    def __init__(self, name_server: str, broker: LocalBroker) -> None:
        self.name_server = name_server
        self.broker = broker


@contextmanager
def running_cluster(home: Path, **config: str) -> Iterator[Cluster]:
    with run_name_server(home / "namesrv") as server:
        address = f"{server.host}:{server.port}"
        keys = {"enablePropertyFilter": "true", "brokerIP1": "127.0.0.1", **config}
        with run_broker(home / "broker", name_servers=address, config=keys) as broker:
            yield Cluster(address, broker)


def until(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Return as soon as `condition()` is true; fail at the deadline."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Topics:
    """Topics whose names begin with the test's."""

    def __init__(self, cluster: Cluster, producer: Producer, test: str) -> None:
        self.cluster = cluster
        self.producer = producer
        self._prefix = re.sub(r"\W+", "-", test)[:60]
        self.options = {"nameServer": cluster.name_server}

    def name(self, suffix: str = "") -> str:
        return self._prefix + suffix

    def make(self, suffix: str = "", queues: int = 2) -> str:
        name = self.name(suffix)
        self.producer.create_topic(name, queues=queues)
        return name

    def queue(self, topic: str, number: int = 0) -> MessageQueue:
        return MessageQueue("broker-a", number, topic)

    def send(self, topic: str, bodies: Sequence[bytes], queue: int = 0, **fields: Any) -> None:
        messages = [Message(topic, body, **fields) for body in bodies]
        self.producer.send_batch(messages, queue=self.queue(topic, queue))

    def is_read_by(self, topic: str, group: str) -> bool:
        """Whether a group's offsets are at the ends of all queues."""
        place = BrokerPlace(parse_source({**self.options, "subscribe": topic}))
        heads = place.heads(place.queues(), group)
        return all((head.committed or 0) == head.max_offset for head in heads.values())

    def delete(self, topic: str) -> None:
        """From the broker and the name server, until nobody knows it."""
        name_server = self.cluster.name_server
        with closing(Link(ConnectionOptions(name_server=name_server))) as link:
            client = link.client

            async def is_gone() -> bool:
                in_broker = client.request(DeleteTopicInBroker(topic=topic))
                await client.call(self.cluster.broker.address, in_broker)
                await client.call(name_server, client.request(DeleteTopicInNameServer(topic=topic)))
                try:
                    await client.routes.refresh(topic)
                except TopicNotFound:
                    return True
                return False

            until(lambda: link.run(is_gone, 5))
