"""An official broker registered with an official name server and with ours, side by side."""

from dataclasses import dataclass
from pathlib import Path

from tests.golden.nameserver.conversation import RawConnection, Request
from tests.interop.harness.admin_shell import AdminShell
from tests.interop.harness.artifacts import Line
from tests.interop.harness.servers import (
    Broker,
    NameServer,
    start_emberq_name_server,
    start_official_broker,
    start_official_name_server,
    wait_for_boot,
)
from tests.interop.harness.waiting import eventually

CLUSTER_INFO = 106
# Brokers repeat a registration that failed after 30 s.
REGISTRATION_TIMEOUT_S = 90.0
BROKER_NAME = "brk-a"


@dataclass(frozen=True)
class Cluster:
    """Everything a test compares: the two name servers see the same brokers."""

    line: Line
    home: Path
    official: NameServer
    emberq: NameServer
    broker: Broker
    admin: AdminShell

    @property
    def name_servers(self) -> list[NameServer]:
        return [self.official, self.emberq]

    def start_broker(self, name: str) -> Broker:
        """One more broker, registered with both name servers."""
        return start_official_broker(self.line, name, self.home / name, self.name_servers)


def start_cluster(line: Line, home: Path) -> Cluster:
    official = start_official_name_server(line, home / "official")
    emberq = start_emberq_name_server(home / "emberq")
    admin = AdminShell(line, home / "admin")
    wait_for_boot(emberq)
    wait_for_boot(official)
    name_servers = [official, emberq]
    broker = start_official_broker(line, BROKER_NAME, home / BROKER_NAME, name_servers)
    broker.wait_for_boot()
    for name_server in name_servers:
        wait_until_registered(name_server, broker)
    admin.wait_for_boot()
    return Cluster(line, home, official, emberq, broker, admin)


def cluster_info(name_server: NameServer) -> str:
    """The raw answer to "which brokers do you know"."""
    connection = RawConnection.open(name_server.port)
    try:
        answer = connection.call(Request(CLUSTER_INFO))
    finally:
        connection.close()
    assert answer is not None, f"{name_server.process.name} did not answer"
    return answer.body.decode()


def wait_until_registered(name_server: NameServer, broker: Broker) -> None:
    def knows_it(text: str) -> bool:
        return f'"{broker.name}"' in text and broker.address in text

    eventually(lambda: cluster_info(name_server), knows_it, REGISTRATION_TIMEOUT_S)


def wait_until_gone(name_server: NameServer, broker: Broker) -> None:
    def forgot_it(text: str) -> bool:
        return f'"{broker.name}"' not in text and broker.address not in text

    eventually(lambda: cluster_info(name_server), forgot_it, REGISTRATION_TIMEOUT_S)
