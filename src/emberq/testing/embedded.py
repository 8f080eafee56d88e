"""A cluster inside the test's own process: name server and broker on free ports, in a thread.

    with embedded_cluster() as cluster:
        producer = Producer("group", name_server=cluster.name_server)

It starts in a fraction of a second and leaves nothing behind. For pytest there is a fixture in
`emberq.testing.pytest_plugin`.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from msgspec import Struct

from emberq.broker.config import load
from emberq.broker.parts import BrokerParts
from emberq.broker.server import running_broker
from emberq.client.blocking.loop_thread import LoopThread
from emberq.nameserver.config import NameServerConfig
from emberq.nameserver.server import running_name_server
from emberq.testing.local_broker import SMALL_STORE


class EmbeddedCluster(Struct, frozen=True, kw_only=True):
    """What runs. The broker's tables belong to its thread: look, do not touch."""

    name_server: str
    broker: BrokerParts

    @property
    def broker_address(self) -> str:
        return self.broker.addresses.main


@asynccontextmanager
async def cluster_on_this_loop(data: Path, **broker_keys: str) -> AsyncIterator[EmbeddedCluster]:
    """The same on the loop of an async test; `data` is where its files go."""
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=str(data / "kvConfig.json")
    )
    async with running_name_server(config) as (host, port):
        name_server = f"{host}:{port}"
        keys = {
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "brokerName": "broker-a",
            "listenPort": "0",
            "namesrvAddr": name_server,
            "storePathRootDir": str(data / "store"),
            **SMALL_STORE,
            **broker_keys,
        }
        async with running_broker(load(None, keys, {})) as broker:
            yield EmbeddedCluster(name_server=name_server, broker=broker)


@contextmanager
def embedded_cluster(data: Path | None = None, **broker_keys: str) -> Iterator[EmbeddedCluster]:
    """Run a cluster until the block ends.

    Args:
        data: where its files go; without it they go with the cluster.
        broker_keys: official keys of broker.conf, for instance `autoCreateTopicEnable="false"`.

    Raises:
        EmberqError: it cannot start.
    """
    with ExitStack() as stack:
        if data is None:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="emberq-")))
        thread = LoopThread()
        stack.callback(thread.stop)
        servers = AsyncExitStack()
        cluster = thread.run(servers.enter_async_context(cluster_on_this_loop(data, **broker_keys)))
        stack.callback(lambda: thread.run(servers.aclose()))
        yield cluster
