"""Servers for tests of our client, alike whoever wrote them: quick retries and checks."""

from pathlib import Path

from tests.client_behaviour.server import BROKER_KEYS, Server
from tests.interop.harness.artifacts import Line
from tests.interop.harness.cluster import wait_until_registered
from tests.interop.harness.servers import (
    start_emberq_broker,
    start_emberq_name_server,
    start_official_broker,
    start_official_name_server,
    wait_for_boot,
)

PATIENCE_S = 60.0
BROKER_NAME = "brk-a"


def start_behaving_server(line: Line | None, home: Path) -> Server:
    """A name server and a broker of an official line, or of ours."""
    if line is None:
        name_server = start_emberq_name_server(home / "namesrv")
        wait_for_boot(name_server)
        broker = start_emberq_broker(BROKER_NAME, home / "broker", [name_server], **BROKER_KEYS)
    else:
        name_server = start_official_name_server(line, home / "namesrv")
        wait_for_boot(name_server)
        broker = start_official_broker(
            line,
            BROKER_NAME,
            home / "broker",
            [name_server],
            port=None,
            java_options=(),
            **BROKER_KEYS,
        )
    broker.wait_for_boot()
    wait_until_registered(name_server, broker)
    name = "EmberQ" if line is None else line.server_version
    return Server(name=name, name_server=name_server.address, patience_s=PATIENCE_S)
