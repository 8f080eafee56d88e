"""Our small Java programs on the official clients."""

from pathlib import Path

from tests.interop.harness.artifacts import Line
from tests.interop.harness.java import client_class_path, java_command, prepare_home
from tests.interop.harness.processes import TestProcess

CLIENT_TIMEOUT_S = 90.0
# What fails, such as a lock that another member still has, is repeated every 20 s by default.
QUICK_REBALANCE = (
    "-Drocketmq.client.rebalance.waitInterval=2000",
    "-Drocketmq.client.rebalance.lockInterval=1000",
)


def send_messages(line: Line, home: Path, name_server: str, topic: str, count: int) -> list[str]:
    """Send with the official producer; the line that it prints for each message."""
    arguments = (name_server, "interop-producer", topic, str(count))
    with _start(line, "Producer", home, *arguments) as producer:
        producer.wait_for_line("^done$", CLIENT_TIMEOUT_S)
        return [text for text in producer.lines if text.startswith("sent ")]


def start_push_consumer(
    line: Line, home: Path, name_server: str, group: str, topic: str
) -> TestProcess:
    return _start(line, "PushConsumer", home, name_server, group, topic)


def start_mixed(
    line: Line, home: Path, name_server: str, role: str, group: str, topic: str
) -> TestProcess:
    """The official half of a group with members of two languages; roles are those of Mixed.java."""
    return _start(line, "Mixed", home, name_server, role, group, topic, options=QUICK_REBALANCE)


def received_keys(consumer: TestProcess) -> set[str]:
    return {text.split()[1] for text in consumer.lines if text.startswith("got ")}


def _start(
    line: Line, program: str, home: Path, *arguments: str, options: tuple[str, ...] = ()
) -> TestProcess:
    prepare_home(home)
    command = java_command(
        *(program, *arguments),
        class_path=client_class_path(line),
        home=home,
        options=("-Drocketmq.client.logUseSlf4j=true", *options),
    )
    return TestProcess(f"official {program} {line.client_version}", command, home)
