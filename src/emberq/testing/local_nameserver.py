"""A real name server for tests: the program itself, on a free port, in a home of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from ssl import SSLContext
from threading import Timer
from typing import Any

from msgspec import Struct

from emberq.config_file import to_file
from emberq.errors import EmberqError
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

BOOT_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 20.0
CALL_TIMEOUT_S = 10.0
BOOT_LINE = re.compile(r"The Name Server boot success\. serializeType=JSON, address (\S+):(\d+)\n")


class LocalNameServer:
    """A running name server process."""

    def __init__(self, process: "subprocess.Popen[str]", host: str, port: int, home: Path) -> None:
        self.process = process
        self.host = host
        self.port = port
        self.home = home

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
        return _log_file(self.home).read_text()

    def stop(self) -> int:
        """Ask it to stop and wait; returns its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """End it as a crash does, without a word."""
        return self._end(getattr(signal, "SIGKILL", signal.SIGTERM))

    def _end(self, how: signal.Signals) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(STOP_TIMEOUT_S)


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
    command = [sys.executable, "-m", "emberq", "namesrv", "-c", str(file), "--port", str(port)]
    with (
        _log_file(home).open("a") as log,
        subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "HOME": str(home), **(environment or {})},
            **popen,
        ) as process,
    ):
        try:
            host, listen_port = _wait_until_ready(process, home)
            yield LocalNameServer(process, host, listen_port, home)
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


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


def _wait_until_ready(process: "subprocess.Popen[str]", home: Path) -> tuple[str, int]:
    assert process.stdout is not None
    # Killing a program that says nothing ends the read below.
    alarm = Timer(BOOT_TIMEOUT_S, process.kill)
    alarm.start()
    try:
        line = process.stdout.readline()
    finally:
        alarm.cancel()
    ready = BOOT_LINE.fullmatch(line)
    if ready is None:
        process.kill()
        raise EmberqError(f"the name server did not start: {line}{_log_file(home).read_text()}")
    return ready[1], int(ready[2])


def _config_file(home: Path) -> Path:
    return home / "namesrv.conf"


def _log_file(home: Path) -> Path:
    return home / "namesrv.log"
