"""A name server and a broker in processes of their own, all traffic through proxies that break."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from emberq.testing.faulty_proxy import FaultyProxy, faulty_proxy
from emberq.testing.local_broker import LocalBroker, run_broker
from emberq.testing.local_nameserver import LocalNameServer, run_name_server
from tests.interop.harness.ports import broker_port, free_port

# What the broker announces: another address of this machine, on the broker's own port.
PROXIED_HOST = "127.0.0.2"
# Retries come after a second instead of minutes.
QUICK_LEVELS = " ".join(["1s"] * 18)


class ProxiedCluster:
    """Clients see the proxies only; servers can be killed and started again behind them."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._servers = ExitStack()
        self._brokers = ExitStack()
        self.server: LocalNameServer
        self.broker: LocalBroker
        self.to_name_server: FaultyProxy
        self.to_broker: FaultyProxy

    @property
    def name_server(self) -> str:
        return self.to_name_server.address

    def start_name_server(self, port: int) -> None:
        home = self._home / "namesrv"
        self.server = self._servers.enter_context(run_name_server(home, port=port))

    def start_broker(self, port: int) -> None:
        config = {"brokerIP1": PROXIED_HOST, "messageDelayLevel": QUICK_LEVELS}
        self.broker = self._brokers.enter_context(
            run_broker(
                self._home / "broker", name_servers=self.server.address, config=config, port=port
            )
        )

    async def kill_broker(self) -> None:
        """As a crash ends it."""
        await asyncio.to_thread(self.broker.kill)

    async def restart_broker(self) -> None:
        """At its old address, with what it had stored."""
        await asyncio.to_thread(self.start_broker, self.broker.port)

    async def kill_name_server(self) -> None:
        await asyncio.to_thread(self.server.kill)

    async def restart_name_server(self) -> None:
        await asyncio.to_thread(self.start_name_server, self.server.port)

    def close(self) -> None:
        self._brokers.close()
        self._servers.close()


@asynccontextmanager
async def proxied_cluster(home: Path) -> AsyncIterator[ProxiedCluster]:
    cluster = ProxiedCluster(home)
    try:
        await asyncio.to_thread(cluster.start_name_server, free_port())
        await asyncio.to_thread(cluster.start_broker, broker_port())
        server, broker = cluster.server, cluster.broker
        async with (
            faulty_proxy(server.address) as cluster.to_name_server,
            faulty_proxy(
                f"127.0.0.1:{broker.port}", host=PROXIED_HOST, port=broker.port
            ) as cluster.to_broker,
        ):
            yield cluster
    finally:
        await asyncio.to_thread(cluster.close)
