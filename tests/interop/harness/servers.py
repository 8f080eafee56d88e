"""Name servers and brokers under test, official ones and ours, each in a home of its own."""

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.interop.harness.artifacts import Line, server_jars
from tests.interop.harness.java import java_command, prepare_home
from tests.interop.harness.ports import free_port, free_port_with
from tests.interop.harness.processes import TestProcess

BOOT_TIMEOUT_S = 90.0
NAME_SERVER_BOOT = "The Name Server boot success"
CLUSTER = "InteropCluster"


@dataclass(frozen=True)
class NameServer:
    """A running name server, whoever wrote it."""

    process: TestProcess
    port: int
    home: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def start_official_name_server(line: Line, home: Path) -> NameServer:
    prepare_home(home)
    port = free_port()
    command = java_command(
        *("org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(_name_server_file(home, port))),
        class_path=[server_jars(line)],
        home=home,
        heap_mb=128,
    )
    process = TestProcess(f"official name server {line.server_version}", command, home)
    return NameServer(process, port, home)


def start_emberq_name_server(home: Path, **config: str) -> NameServer:
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    file = _name_server_file(home, port, **config)
    command = [sys.executable, "-m", "emberq", "namesrv", "-c", str(file)]
    environment = {"HOME": str(home), "ROCKETMQ_HOME": str(home)}
    process = TestProcess("EmberQ name server", command, home, environment)
    return NameServer(process, port, home)


def wait_for_boot(server: NameServer) -> None:
    server.process.wait_for_line(NAME_SERVER_BOOT, BOOT_TIMEOUT_S)


def _name_server_file(home: Path, port: int, **config: str) -> Path:
    settings = {
        "listenPort": str(port),
        "kvConfigPath": f"{home}/kvConfig.json",
        "configStorePath": f"{home}/namesrv.properties",
    }
    file = home / "namesrv.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in (settings | config).items()))
    return file


@dataclass
class Broker:
    """An official broker that can be killed and started again with the same address and store."""

    line: Line
    name: str
    home: Path
    name_servers: list[NameServer]
    port: int
    process: TestProcess

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start_again(self) -> None:
        self.process = _broker_process(self.line, self.name, self.home)

    def wait_for_boot(self) -> None:
        self.process.wait_for_line(rf"The broker\[{self.name}, .*boot success", BOOT_TIMEOUT_S)


def broker_port() -> int:
    """A free port with those for a broker's fast and replication listeners beside it."""
    return free_port_with(-2, 1)


def start_official_broker(
    line: Line,
    name: str,
    home: Path,
    name_servers: list[NameServer],
    *,
    port: int | None = None,
    **config: str,
) -> Broker:
    """A broker on `home/store`, on a port of its own or the given one of `broker_port`."""
    prepare_home(home)
    port = port or broker_port()
    settings = {
        "brokerClusterName": CLUSTER,
        "brokerName": name,
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": str(port),
        "namesrvAddr": ";".join(server.address for server in name_servers),
        "storePathRootDir": f"{home}/store",
        "storePathCommitLog": f"{home}/store/commitlog",
        "mappedFileSizeCommitLog": str(16 << 20),
        "mappedFileSizeConsumeQueue": "120000",
        "maxIndexNum": "100000",
        "maxHashSlotNum": "25000",
        "diskMaxUsedSpaceRatio": "99",
        "enablePropertyFilter": "true",
    }
    (home / "broker.conf").write_text(
        "".join(f"{key}={value}\n" for key, value in (settings | config).items())
    )
    process = _broker_process(line, name, home)
    return Broker(line, name, home, name_servers, port, process)


def _broker_process(line: Line, name: str, home: Path) -> TestProcess:
    command = java_command(
        *("org.apache.rocketmq.broker.BrokerStartup", "-c", f"{home}/broker.conf"),
        class_path=[server_jars(line)],
        home=home,
        heap_mb=256,
        options=("-XX:MaxDirectMemorySize=512m",),
    )
    return TestProcess(f"official broker {line.server_version} {name}", command, home)
