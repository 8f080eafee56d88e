"""A name server and two brokers, each of which can be killed and come back where it was."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from emberq import Producer
from emberq.testing.local_broker import LocalBroker, run_broker
from emberq.testing.local_nameserver import run_name_server
from tests.spark.cluster import until

BROKERS = ("broker-a", "broker-b")


class TwoBrokers:
    def __init__(self, home: Path, name_server: str, producer: Producer) -> None:
        self._home = home
        self.name_server = name_server
        self.options = {"nameServer": name_server}
        self._producer = producer
        self._lives = {name: ExitStack() for name in BROKERS}
        self._brokers: dict[str, LocalBroker] = {}

    def start(self, name: str) -> None:
        """On the port that it had before."""
        before = self._brokers.get(name)
        self._brokers[name] = self._lives[name].enter_context(
            run_broker(
                self._home / name,
                name_servers=self.name_server,
                config={"brokerName": name, "brokerIP1": "127.0.0.1"},
                port=0 if before is None else before.port,
            )
        )

    def kill(self, name: str) -> None:
        self._brokers[name].kill()
        self._lives[name].close()

    def close(self) -> None:
        for life in self._lives.values():
            life.close()

    def make(self, topic: str, queues: int = 2) -> str:
        """As many queues on each of them."""
        self._producer.create_topic(topic, queues=queues)
        until(lambda: len(self._producer.queues(topic)) == queues * len(BROKERS))
        return topic


@contextmanager
def running_two_brokers(home: Path) -> Iterator[TwoBrokers]:
    with run_name_server(home / "namesrv") as server:
        address = f"{server.host}:{server.port}"
        with Producer("makers", name_server=address) as producer:
            brokers = TwoBrokers(home, address, producer)
            try:
                for name in BROKERS:
                    brokers.start(name)
                yield brokers
            finally:
                brokers.close()
