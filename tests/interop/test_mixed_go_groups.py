"""Groups with a member of ours and one of the official Go client."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from emberq.aio import Producer
from emberq.aio import ReceivedMessage as Received
from tests.client_behaviour.server import Server, unique
from tests.interop.conftest import language_trouble, skip_or_fail
from tests.interop.harness.artifacts import LINES, Line
from tests.interop.harness.processes import TestProcess
from tests.interop.harness.scenario_client import LANGUAGES

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(480)]

OLD, NEW = LINES
QUEUES = 8
EACH = 3  # messages to every queue
# Rounds of messages that show who has which queue.
PROBES_MAX = 20
# Go may leave the lock of a queue behind that it gives up; brokers forget locks after 60 s.
PATIENCE_S = 120.0


class Round:
    """Messages to every queue, and who got which."""

    def __init__(self, mark: str, go: TestProcess, ours: list[Received]) -> None:
        self._begin = f"{mark}-"
        self._go = go
        self._ours = ours
        self.sent: set[str] = set()

    async def send(self, producer: Producer, topic: str, count: int) -> None:
        for number in range(count):
            for queue in await producer.queues(topic):
                key = f"{self._begin}{queue.queue_id}-{number}"
                await producer.send(topic, b"x", keys=key, tags="t", queue=queue)
                self.sent.add(key)

    def got_by_go(self) -> list[str]:
        """Keys, in the order of arrival."""
        keys = [line.strip() for line in self._go.lines]
        return [key for key in keys if key.startswith(self._begin)]

    def got_by_us(self) -> list[str]:
        keys = [key for message in self._ours for key in message.keys]
        return [key for key in keys if key.startswith(self._begin)]

    def is_over(self) -> bool:
        return self.sent == {*self.got_by_go(), *self.got_by_us()}


@pytest.mark.parametrize("kind", ["concurrent", "orderly"])
@pytest.mark.parametrize(
    "line",
    [pytest.param(None, id="EmberQ"), pytest.param(NEW, id="5.5"), pytest.param(OLD, id="4.9")],
)
def test_go_and_our_client_share_queues_without_loss_or_overlap(
    behaving: Callable[[Line | None], Server], line: Line | None, kind: str, home: Path
) -> None:
    if trouble := language_trouble("go"):
        skip_or_fail(trouble)
    server = replace(behaving(line), patience_s=PATIENCE_S)
    group = unique("go-mixed")
    home.mkdir(parents=True)
    command = LANGUAGES["go"].command(server.name_server, unique("member"), home)

    async def play() -> None:
        topic = await server.topic(queues=QUEUES)
        with TestProcess("Go member", [*command, group, topic, kind], home) as go:
            await _share(server, topic, group, kind, go)

    asyncio.run(play())


async def _share(server: Server, topic: str, group: str, kind: str, go: TestProcess) -> None:
    ours: list[Received] = []
    consumer = server.pusher(group, ordered=kind == "orderly")

    @consumer.subscribe(topic)
    async def note(message: Received) -> None:
        ours.append(message)

    async with server.producer() as producer:

        async def settle(our_share: int) -> None:
            """Go does not tell which queues it has: a message to every queue shows it."""
            for number in range(PROBES_MAX):
                probes = Round(f"probe{our_share}.{number}", go, ours)
                await probes.send(producer, topic, 1)
                await server.until(probes.is_over)
                if len(probes.got_by_us()) == our_share == QUEUES - len(probes.got_by_go()):
                    return
            raise AssertionError("the queues were not shared out")

        both, alone = Round("both", go, ours), Round("alone", go, ours)
        await settle(0)
        async with consumer:
            await settle(QUEUES // 2)
            await both.send(producer, topic, EACH)
            await server.until(both.is_over)
            assert len(both.got_by_go()) == len(both.got_by_us()) == EACH * QUEUES // 2
        await settle(0)
        await alone.send(producer, topic, EACH)
        await server.until(alone.is_over)

    # What we had finished was committed: Go got nothing of it again.
    assert len(both.got_by_go()) == EACH * QUEUES // 2
    if kind == "orderly":
        for queue in range(QUEUES):
            of_queue = [key for key in alone.got_by_go() if key.startswith(f"alone-{queue}-")]
            assert of_queue == [f"alone-{queue}-{number}" for number in range(EACH)]
