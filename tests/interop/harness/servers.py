"""Name servers and brokers under test, official ones and ours, each in a home of its own."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.interop.harness.artifacts import Line, server_jars
from tests.interop.harness.java import java_command, prepare_home
from tests.interop.harness.ports import broker_port, free_port
from tests.interop.harness.processes import TestProcess

BOOT_TIMEOUT_S = 90.0
NAME_SERVER_BOOT = "The Name Server boot success"
CLUSTER = "InteropCluster"
# Brokers refuse what has waited for its turn, sends after 200 ms, and drop it silently if nobody
# waits for an answer. A busy machine makes a broker no less right.
PATIENCE = {"brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": "60000"}


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
    """A broker that can be killed and started again with the same address and store."""

    name: str
    home: Path
    port: int
    start: Callable[[], TestProcess]
    process: TestProcess

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start_again(self) -> None:
        self.process = self.start()

    def wait_for_boot(self) -> None:
        self.process.wait_for_line(rf"The broker\[{self.name}, .*boot success", BOOT_TIMEOUT_S)


def start_official_broker(
    line: Line,
    name: str,
    home: Path,
    name_servers: list[NameServer],
    *,
    port: int | None = None,
    java_options: tuple[str, ...] = (),
    **config: str,
) -> Broker:
    """A broker on `home/store`, on a port of its own or the given one of `broker_port`."""
    prepare_home(home)
    port = port or broker_port()
    _broker_file(name, home, name_servers, port, config)

    def start() -> TestProcess:
        command = java_command(
            *("org.apache.rocketmq.broker.BrokerStartup", "-c", f"{home}/broker.conf"),
            class_path=[server_jars(line)],
            home=home,
            heap_mb=256,
            options=("-XX:MaxDirectMemorySize=512m", *java_options),
        )
        return TestProcess(f"official broker {line.server_version} {name}", command, home)

    return Broker(name, home, port, start, start())


def start_emberq_broker(
    name: str, home: Path, name_servers: list[NameServer], **config: str
) -> Broker:
    """One of ours with the settings of `start_official_broker`."""
    home.mkdir(parents=True, exist_ok=True)
    port = broker_port()
    _broker_file(name, home, name_servers, port, config)

    def start() -> TestProcess:
        command = [sys.executable, "-m", "emberq", "broker", "-c", f"{home}/broker.conf"]
        environment = {"HOME": str(home), "ROCKETMQ_HOME": str(home)}
        return TestProcess(f"EmberQ broker {name}", command, home, environment)

    return Broker(name, home, port, start, start())


def _broker_file(
    name: str, home: Path, name_servers: list[NameServer], port: int, config: dict[str, str]
) -> None:
    settings = {
        "brokerClusterName": CLUSTER,
        "brokerName": name,
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": str(port),
        "storePathRootDir": f"{home}/store",
        "storePathCommitLog": f"{home}/store/commitlog",
        "mappedFileSizeCommitLog": str(16 << 20),
        "mappedFileSizeConsumeQueue": "120000",
        "maxIndexNum": "100000",
        "maxHashSlotNum": "25000",
        "diskMaxUsedSpaceRatio": "99",
        "enablePropertyFilter": "true",
        **PATIENCE,
    }
    if name_servers:  # 4.9.7 does not start with an empty list
        settings["namesrvAddr"] = ";".join(server.address for server in name_servers)
    (home / "broker.conf").write_text(
        "".join(f"{key}={value}\n" for key, value in (settings | config).items())
    )
