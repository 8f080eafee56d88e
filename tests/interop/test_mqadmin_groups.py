"""mqadmin asks about a consumer that runs: through our broker it hears the same as through an
official one, and can send its group back."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.interop.harness.admin_shell import AdminShell
from tests.interop.harness.clients import received_keys, send_messages, start_push_consumer
from tests.interop.harness.processes import TestProcess
from tests.interop.harness.sites import NEWEST, Site, Sites
from tests.interop.harness.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

TOPIC, GROUP = "asked-topic", "asked-group"
MESSAGES = 10
ARRIVAL_TIMEOUT_S = 60.0
# What differs between two consumers, and between two calls.
UNSTABLE = (
    (re.compile(r"\d+\.\d+\.\d+\.\d+@\d+#\d+"), "CLIENT"),
    (re.compile(r"127\.0\.0\.1:\d+"), "PEER"),
    (re.compile(r"\b1[67]\d{11}\b"), "MS"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"Consume TPS: .*"), "Consume TPS"),
    (re.compile(r" +"), " "),
)
STACK_FRAME = re.compile(r"^\s+(at |\.\.\. \d+ more)")


@dataclass(frozen=True)
class Asked:
    """A site with a consumer that has received everything, and the tools that ask about it."""

    site: Site
    consumer: TestProcess
    shell: AdminShell

    def run(self, *arguments: str) -> list[str]:
        given = [self.site.broker.address if each == "BROKER" else each for each in arguments]
        lines = self.shell.run(*given, "-n", self.site.name_server.address)
        return sorted(
            normal(text) for text in lines if text.strip() and not STACK_FRAME.match(text)
        )

    def wait_for_deliveries(self, count: int) -> None:
        def deliveries() -> int:
            return len([text for text in self.consumer.lines if text.startswith("got ")])

        eventually(deliveries, lambda found: found >= count, ARRIVAL_TIMEOUT_S)

    def wait_until_committed(self) -> None:
        """Clients commit every five seconds."""

        def progress() -> list[str]:
            return self.run("consumerProgress", "-g", GROUP)

        eventually(progress, lambda lines: "Consume Diff Total: 0" in lines, ARRIVAL_TIMEOUT_S)


def normal(text: str) -> str:
    for pattern, name in UNSTABLE:
        text = pattern.sub(name, text)
    return text.strip()


@pytest.fixture(scope="module")
def both(
    tool_sites: Sites, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Asked, Asked]]:
    home = tmp_path_factory.mktemp("asked-")
    ours, official = (
        _start(site, home / name)
        for site, name in zip(tool_sites.both, ("ours", "official"), strict=True)
    )
    try:
        for asked in (ours, official):
            asked.shell.wait_for_boot()
            eventually(
                partial(_received_count, asked),
                lambda count: count == MESSAGES,
                ARRIVAL_TIMEOUT_S,
            )
            asked.wait_until_committed()
        yield ours, official
    finally:
        for asked in (ours, official):
            asked.consumer.kill()
            asked.shell.process.kill()


def _received_count(asked: Asked) -> int:
    return len(received_keys(asked.consumer))


def _start(site: Site, home: Path) -> Asked:
    name_server = site.name_server.address
    site.create_topic(TOPIC, 2)
    send_messages(NEWEST, home / "producer", name_server, TOPIC, MESSAGES)
    consumer = start_push_consumer(NEWEST, home / "consumer", name_server, GROUP, TOPIC)
    return Asked(site, consumer, AdminShell(NEWEST, home / "tools"))


def ask_both(both: tuple[Asked, Asked], *arguments: str) -> list[str]:
    ours, official = (asked.run(*arguments) for asked in both)
    assert ours == official
    return ours


def test_connections_and_what_they_subscribe_look_alike(both: tuple[Asked, Asked]) -> None:
    lines = ask_both(both, "consumerConnection", "-g", GROUP)

    assert f"{TOPIC} *" in lines
    assert "ConsumeType: CONSUME_PASSIVELY" in lines


def test_a_group_that_nobody_is_in_is_refused_alike(both: tuple[Asked, Asked]) -> None:
    ask_both(both, "consumerConnection", "-g", "nobody")
    ask_both(both, "producerConnection", "-g", "nobody", "-t", TOPIC)


def test_producers_are_listed_alike(both: tuple[Asked, Asked]) -> None:
    lines = ask_both(both, "producer", "-b", "BROKER")

    assert any("clientId=CLIENT,remoteIP=/PEER" in text for text in lines)


def test_a_consumer_tells_its_state_through_the_broker(both: tuple[Asked, Asked]) -> None:
    lines = ask_both(both, "consumerStatus", "-g", GROUP)

    assert "Rebalance OK" in lines


def test_pulling_can_be_chosen(both: tuple[Asked, Asked]) -> None:
    mode = ("setConsumeMode", "-b", "BROKER", "-t", TOPIC, "-g", GROUP, "-m", "PULL")

    assert any("success" in text for text in ask_both(both, *mode))


def test_a_group_sent_back_consumes_everything_again(both: tuple[Asked, Asked]) -> None:
    ask_both(both, "resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "0")

    for asked in both:
        asked.wait_for_deliveries(2 * MESSAGES)
        asked.wait_until_committed()
    ask_both(both, "consumerProgress", "-g", GROUP)
    ask_both(both, "skipAccumulatedMessage", "-g", GROUP, "-t", TOPIC)
