"""A broker inside the test's own loop, on a free port, with a small store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from emberq.broker.config import LoadedConfig, load
from emberq.broker.parts import BrokerParts
from emberq.broker.server import running_broker
from emberq.config_file import to_file
from emberq.testing.local_broker import SMALL_STORE
from emberq.testing.local_nameserver import RawClient, connected


class BrokerUnderTest(Struct, frozen=True):
    running: BrokerParts
    client: RawClient


def broker_config(folder: Path, **keys: str) -> LoadedConfig:
    """A configuration for tests; `keys` are official names."""
    defaults = {
        "bindAddress": "127.0.0.1",
        "brokerName": "broker-a",
        "listenPort": "0",
        "storePathRootDir": str(folder / "store"),
        **SMALL_STORE,
    }
    file = folder / "broker.conf"
    file.write_bytes(to_file({**defaults, **keys}))
    return load(file, {}, {})


@asynccontextmanager
async def broker_in(folder: Path, **keys: str) -> AsyncIterator[BrokerUnderTest]:
    """A broker with these official keys, and a client that is connected to it."""
    async with running_broker(broker_config(folder, **keys)) as running:
        address = running.addresses
        async with connected(address.ip, address.port) as client:
            yield BrokerUnderTest(running, client)
