"""Starts the brokers that clients are measured on, each in a temporary home."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from benchmarks.scenarios.brokers import JAVA_HEAP, NEIGHBOUR_PORTS, await_first_message
from benchmarks.servers import (
    emberq_command,
    emberq_name_server,
    free_port,
    output_tail,
    process_in_home,
)
from tests.interop.harness.artifacts import resolved_jars
from tests.interop.harness.ports import free_port_with

BROKER_NAME = "bench-broker"
KAFKA_GROUP, KAFKA_ARTIFACT, KAFKA_VERSION = "org.apache.kafka", "kafka_2.13", "4.3.1"
PARTITIONS = 8
CLUSTER_ID = "ZW1iZXJxLWJlbmNoLTEyMw"  # any 16 bytes
START_TIMEOUT_S = 60.0
POLL_S = 0.1


@contextmanager
def emberq_cluster() -> Iterator[str]:
    """A name server and a broker of ours; yields the name server's address."""
    with emberq_name_server() as names, _home() as home:
        address = f"127.0.0.1:{names.port}"
        port = free_port_with(*NEIGHBOUR_PORTS)
        settings = home / "broker.conf"
        settings.write_text(
            f"brokerName={BROKER_NAME}\nbrokerIP1=127.0.0.1\nlistenPort={port}\n"
            f"namesrvAddr={address}\nstorePathRootDir={home}/store\n"
            f"storePathCommitLog={home}/store/commitlog\n"
        )
        command = [*emberq_command(), "broker", "-c", str(settings), "--log-level", "warning"]
        with process_in_home(command, home) as (process, _):
            try:
                await_first_message(process, port)
            except (OSError, RuntimeError) as error:
                raise RuntimeError(f"no broker: {error}\n{output_tail(home)}") from error
            yield address


class RunningKafka(Struct, frozen=True, kw_only=True):
    address: str
    pid: int


@contextmanager
def kafka() -> Iterator[RunningKafka]:
    """One Kafka process that is broker and controller."""
    jars = resolved_jars(
        f"kafka-{KAFKA_VERSION}", (KAFKA_ARTIFACT,), KAFKA_VERSION, group=KAFKA_GROUP
    )
    java = [shutil.which("java") or "java", *JAVA_HEAP, "-cp", f"{jars}/*"]
    with _home() as home:
        port = free_port()
        settings = _kafka_settings(home, port)
        formatted = subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings)],
            capture_output=True,
            text=True,
            check=False,
        )
        if formatted.returncode:
            raise RuntimeError(f"Kafka's store: {formatted.stdout}{formatted.stderr}")
        with process_in_home([*java, "kafka.Kafka", str(settings)], home) as (process, _):
            _await_port(process, port, home)
            yield RunningKafka(address=f"127.0.0.1:{port}", pid=process.pid)


def _kafka_settings(home: Path, port: int) -> Path:
    controller = free_port()
    path = home / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"log.dirs={home}/logs\nnum.partitions={PARTITIONS}\n"
        "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
        "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
        "share.coordinator.state.topic.replication.factor=1\n"
        "share.coordinator.state.topic.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n"
    )
    return path


def _await_port(process: "subprocess.Popen[bytes]", port: int, home: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1.0):
                return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no Kafka: {error}\n{output_tail(home)}") from error
        time.sleep(POLL_S)


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="emberq-bench-") as folder:
        yield Path(folder)
