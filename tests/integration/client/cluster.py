"""A name server and a broker on the test's own loop, for tests of the client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from emberq.broker.config import load
from emberq.broker.parts import BrokerParts
from emberq.broker.server import running_broker
from emberq.nameserver.config import NameServerConfig
from emberq.nameserver.server import running_name_server
from emberq.testing.local_broker import SMALL_STORE


class Cluster(Struct, frozen=True):
    name_server: str
    broker: BrokerParts


@asynccontextmanager
async def cluster(home: Path, **keys: str) -> AsyncIterator[Cluster]:
    """`keys` are the broker's."""
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=str(home / "kv.json")
    )
    async with running_name_server(config) as (host, port):
        name_server = f"{host}:{port}"
        own = {
            "bindAddress": "127.0.0.1",
            "listenPort": "0",
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "namesrvAddr": name_server,
            "storePathRootDir": str(home / "store"),
        }
        async with running_broker(load(None, {**own, **SMALL_STORE, **keys}, {})) as broker:
            yield Cluster(name_server, broker)
