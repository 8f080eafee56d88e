"""A real name server for tests: the program itself, on a free port, in a home of its own."""

import re
import subprocess
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from ssl import SSLContext
from typing import Any

from msgspec import Struct

from emberq.config_file import to_file
from emberq.model.data_version import DataVersion
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from emberq.protocol.bodies.topics import TopicTable
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, new_request
from emberq.protocol.versions import CURRENT
from emberq.remoting.client import connect
from emberq.remoting.connection import Connection
from emberq.remoting.endpoint import Endpoint
from emberq.testing.local_process import LocalProcess, run_program

CALL_TIMEOUT_S = 10.0
BOOT_LINE = re.compile(r"The Name Server boot success\. serializeType=JSON, address (\S+):(\d+)\n")


class LocalNameServer:
    """A running name server process."""

    def __init__(self, program: LocalProcess, home: Path) -> None:
        self.program = program
        self.home = home
        self.host = program.ready[1]
        self.port = int(program.ready[2])

    @property
    def process(self) -> "subprocess.Popen[str]":
        return self.program.process

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def config_file(self) -> Path:
        return _config_file(self.home)

    @property
    def key_value_file(self) -> Path:
        return self.home / "namesrv" / "kvConfig.json"

    def log(self) -> str:
        """What it wrote to stderr so far."""
        return self.program.log()

    def stop(self) -> int:
        """Ask it to stop and wait; returns its exit code."""
        return self.program.stop()

    def kill(self) -> int:
        """End it as a crash does, without a word."""
        return self.program.kill()


@contextmanager
def run_name_server(
    home: Path,
    *options: str,
    config: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    port: int = 0,
    **popen: Any,
) -> Iterator[LocalNameServer]:
    """Run `emberq namesrv` until the block ends; it listens on the loopback interface.

    `config` becomes the configuration file of a home that has none yet: a restart in the same
    home finds what was stored there. `popen` goes to `subprocess.Popen`.

    Raises:
        EmberqError: it ended before it was ready; the message is what it said.
    """
    home.mkdir(parents=True, exist_ok=True)
    file = _config_file(home)
    if not file.exists():
        file.write_bytes(to_file({"bindAddress": "127.0.0.1", **(config or {})}))
    with run_program(
        ["namesrv", "-c", str(file), "--port", str(port), *options],
        BOOT_LINE,
        log_file=home / "namesrv.log",
        environment={"HOME": str(home), **(environment or {})},
        **popen,
    ) as program:
        yield LocalNameServer(program, home)


class Broker(Struct, frozen=True, kw_only=True):
    """A broker that exists only in what it registers."""

    name: str = "broker-a"
    address: str = "10.1.1.7:10911"
    cluster: str = "C1"
    id: int = 0
    ha_address: str = "10.1.1.7:10912"

    def fields(self) -> dict[str, str]:
        return {
            "brokerName": self.name,
            "brokerAddr": self.address,
            "clusterName": self.cluster,
            "brokerId": str(self.id),
            "haServerAddr": self.ha_address,
        }


class RawClient:
    """Sends requests as they are and returns answers as they are."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def call(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = CURRENT,
    ) -> Command:
        request = new_request(code, dict(fields or {}), body, version=version)
        return await self.connection.call(request, CALL_TIMEOUT_S)

    async def register(
        self,
        broker: Broker,
        topics: Iterable[TopicConfig] = (),
        *,
        counter: int = 1,
        extra_fields: Mapping[str, str] | None = None,
    ) -> Command:
        """Register a broker with these topics; `counter` is its data version."""
        table = TopicTable(
            data_version=DataVersion(counter=counter),
            topics={topic.name: topic for topic in topics},
        )
        body = encode_registration(RegisterBrokerBody(topic_table=table), is_compressed=False)
        fields = {**broker.fields(), **(extra_fields or {})}
        return await self.call(RequestCode.REGISTER_BROKER, fields, body)

    async def route(self, topic: str, **fields: str) -> Command:
        return await self.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **fields})

    def close(self) -> None:
        self.connection.close()


@asynccontextmanager
async def connected(
    host: str, port: int, *, tls: SSLContext | None = None
) -> AsyncIterator[RawClient]:
    """A client of this server until the block ends."""
    connection = await connect(host, port, Endpoint(), tls=tls)
    try:
        yield RawClient(connection)
    finally:
        connection.close()
        await connection.closed


def _config_file(home: Path) -> Path:
    return home / "namesrv.conf"
