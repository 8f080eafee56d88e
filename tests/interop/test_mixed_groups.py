"""Groups with members of two languages: ours and the official Java client, and Go beside."""

import asyncio
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from emberq.aio import Compression, CompressionType, Message, Producer, PushConsumer
from emberq.aio import ReceivedMessage as Received
from tests.client_behaviour.server import Server, unique
from tests.interop.conftest import language_trouble, skip_or_fail
from tests.interop.harness.artifacts import LINES, Line
from tests.interop.harness.behaving import PATIENCE_S
from tests.interop.harness.clients import start_mixed
from tests.interop.harness.processes import TestProcess
from tests.interop.harness.scenario_client import LANGUAGES, ScenarioClient
from tests.interop.harness.sites import Sites

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

OLD, NEW = LINES
QUEUES = 8

# CI's part: our broker; the whole matrix has the rest.
PAIRS = [
    pytest.param(server, client, marks=marks, id=f"{name} with Java {client.client_version}")
    for server, name in ((None, "EmberQ"), (NEW, "5.5"), (OLD, "4.9"))
    for client in LINES
    for marks in [() if (server, client) == (None, OLD) else pytest.mark.slow]
]


class JavaMember:
    """What the Java half has printed."""

    def __init__(self, process: TestProcess) -> None:
        self.process = process

    def got(self) -> list[list[str]]:
        """Queue, key, tag, size and checksum of each message."""
        return [line.split()[1:] for line in self.process.lines if line.startswith("got ")]

    def share(self) -> int:
        """How many queues it has now."""
        told = [line for line in self.process.lines if line.startswith("share ")]
        return int(told[-1].split()[1]) if told else 0

    def queues(self) -> set[int]:
        return {int(queue) for queue, *_ in self.got()}

    def handled(self) -> list[str]:
        """Keys, in the order of arrival."""
        return [key for _, key, *_ in self.got()]


@pytest.fixture
def mixed(home: Path) -> Iterator[Callable[..., JavaMember]]:
    with ExitStack() as stack:

        def start(line: Line, server: Server, role: str, group: str, topic: str) -> JavaMember:
            process = stack.enter_context(
                start_mixed(line, home / role, server.name_server, role, group, topic)
            )
            process.wait_for_line("^(ready|done)$", PATIENCE_S)
            return JavaMember(process)

        yield start


@pytest.mark.parametrize("kind", ["concurrent", "orderly"])
@pytest.mark.parametrize(("server_line", "client_line"), PAIRS)
def test_members_of_two_languages_share_queues_without_loss_or_overlap(
    behaving: Callable[[Line | None], Server],
    server_line: Line | None,
    client_line: Line,
    kind: str,
    mixed: Callable[..., JavaMember],
) -> None:
    server = behaving(server_line)

    async def play() -> None:
        topic, group = await server.topic(queues=QUEUES), unique("mixed")
        java = await asyncio.to_thread(mixed, client_line, server, kind, group, topic)
        ours: list[Received] = []
        consumer = server.pusher(group, ordered=kind == "orderly")

        @consumer.subscribe(topic)
        async def note(message: Received) -> None:
            ours.append(message)

        async with server.producer() as producer:
            queues = await producer.queues(topic)

            async def send(mark: str) -> None:
                """Three messages to every queue."""
                for number in range(3):
                    for queue in queues:
                        key = f"{mark}-{queue.queue_id}-{number}"
                        await producer.send(topic, b"x", keys=key, tags="t", queue=queue)

            async with consumer:
                # While one has taken a queue and the other has not given it up, both read it.
                half = QUEUES // 2
                await server.until(lambda: _count(consumer, topic) == java.share() == half)
                await send("both")
                await server.until(lambda: len({*java.handled(), *_keys(ours)}) == 3 * QUEUES)
                assert len(java.handled()) == len(ours) == 3 * QUEUES // 2, "handled twice"
                assert not java.queues() & {message.queue_id for message in ours}
            await server.until(lambda: java.share() == QUEUES)
            await send("alone")
            await server.until(lambda: len(set(java.handled())) == 3 * QUEUES // 2 + 3 * QUEUES)

        # What we had finished was committed: Java got nothing of it again.
        assert len(java.handled()) == len(set(java.handled()))
        if kind == "orderly":
            for number in range(QUEUES):
                of_queue = [key for key in java.handled() if key.startswith(f"alone-{number}-")]
                assert of_queue == [f"alone-{number}-{each}" for each in range(3)]

    asyncio.run(play())


def _count(consumer: PushConsumer, topic: str) -> int:
    return sum(queue.topic == topic for queue in consumer.queues)


def _keys(messages: list[Received]) -> list[str]:
    return [key for message in messages for key in message.keys]


@pytest.mark.parametrize(("server_line", "client_line"), PAIRS)
def test_each_language_reads_what_the_other_one_sends(
    behaving: Callable[[Line | None], Server],
    server_line: Line | None,
    client_line: Line,
    mixed: Callable[..., JavaMember],
) -> None:
    """Compressed by every kind, in batches, with a trace."""
    server = behaving(server_line)

    async def play() -> None:
        topic = await server.topic()
        async with server.producer() as producer:
            await producer.create_topic(f"{topic}-trace", queues=1)
        await asyncio.to_thread(mixed, client_line, server, "produce", unique("javas"), topic)
        found = {message.keys[0]: message for message in await server.read(topic, 5)}
        assert {key: found[key].body for key in found} == {
            "java-plain": b"plain",
            "java-compressed": b"x" * 100_000,
            **{f"java-batch-{number}": b"b%d" % number for number in range(3)},
        }
        assert found["java-compressed"].size < 10_000
        traces = await server.read(f"{topic}-trace", 1)
        records = [record for each in traces for record in each.text().split("\x02") if record]
        assert {record.split("\x01")[0] for record in records} == {"Pub"}

        java_topic = await server.topic()
        expected = await _send_every_kind(server, java_topic)
        java = await asyncio.to_thread(
            mixed, client_line, server, "concurrent", unique("javas"), java_topic
        )
        await server.until(lambda: len(set(java.handled())) == len(expected))
        assert {key: int(crc) for _, key, _, _, crc in java.got()} == expected

    asyncio.run(play())


async def _send_every_kind(server: Server, topic: str) -> dict[str, int]:
    """The checksum of every body, by key."""
    bodies = {"plain": b"plain", **{f"batch-{number}": b"b%d" % number for number in range(3)}}
    async with server.producer(trace=unique("trace")) as producer:
        await producer.send(topic, b"plain", keys="plain", tags="t")
        await producer.send_batch(
            Message(topic, bodies[key], keys=key, tags="t") for key in bodies if "batch" in key
        )
    for kind in CompressionType:
        bodies[kind.name] = kind.name.encode() * 10_000
        async with server.producer(compression=Compression(kind=kind)) as producer:
            await producer.send(topic, bodies[kind.name], keys=kind.name, tags="t")
    return {key: zlib.crc32(body) for key, body in bodies.items()}


TRANSACTION_PAIRS = [
    pytest.param(None, NEW, id="EmberQ"),
    pytest.param(OLD, OLD, id="4.9", marks=pytest.mark.slow),
    pytest.param(NEW, NEW, id="5.5", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("server_line", "client_line"), TRANSACTION_PAIRS)
def test_a_producer_of_one_language_answers_for_half_messages_of_the_other(
    behaving: Callable[[Line | None], Server],
    server_line: Line | None,
    client_line: Line,
    mixed: Callable[..., JavaMember],
) -> None:
    server = behaving(server_line)

    async def play() -> None:
        topic, group = await server.topic(queues=1), unique("payers")
        await asyncio.to_thread(mixed, client_line, server, "leave", group, topic)
        asked: set[str] = set()

        def check(message: Received) -> bool:
            asked.add(message.text())
            return message.text().endswith("kept")

        async with server.client() as client, Producer(group, client=client, check=check) as ours:
            await ours.send(topic, b"hello")
            seen = {message.text() for message in await server.read(topic, 2)}
            await server.until(lambda: len(asked) == 2)
        assert seen == {"hello", "java-kept"}
        assert asked == {"java-kept", "java-dropped"}

        other, group = await server.topic(queues=1), unique("payers")
        async with server.client() as client, Producer(group, client=client) as lost:
            transaction = lost.transaction()
            for body in (b"our-kept", b"our-dropped"):
                await transaction.send(other, body)
            # Nobody ends it.
        java = await asyncio.to_thread(mixed, client_line, server, "answer", group, other)
        seen = {message.text() for message in await server.read(other, 2)}
        await server.until(lambda: "asked our-dropped" in java.process.lines)
        assert seen == {"java-hello", "our-kept"}

    asyncio.run(play())


@pytest.mark.parametrize("site_name", ["emberq", pytest.param("official", marks=pytest.mark.slow)])
def test_go_and_our_client_read_each_other(sites: Sites, site_name: str, home: Path) -> None:
    if trouble := language_trouble("go"):
        skip_or_fail(trouble)
    site = getattr(sites, site_name)
    server = Server(name=site_name, name_server=site.name_server.address, patience_s=PATIENCE_S)
    prefix = unique("gomix")
    go = LANGUAGES["go"]
    language = type(go)(go.name, prefix, go.tools, go.scenarios, go.command, go.prepare)
    client = ScenarioClient(language, site, home)
    client.wait_until_ready()
    answered = next(line for line in client.run("send") if line.startswith("async "))
    client.run("sizes")
    client.process.kill()

    async def play() -> None:
        # What was acknowledged is there, every single one. Of what nobody acknowledges a broker
        # under load may drop some, but not all.
        acknowledged = {f"{kind}-{number}" for kind in ("sync", "batch") for number in range(8)}
        acknowledged |= {"queue-0", "delayed-0"}
        others = {f"{kind}-{number}" for kind in ("async", "oneway") for number in range(8)}

        def is_there(found: list[Received]) -> bool:
            of_kind = Counter(key.split("-")[0] for key in set(_keys(found)))
            is_async_there = of_kind["async"] >= answered.count("SEND_OK")
            return acknowledged <= {*_keys(found)} and is_async_there and of_kind["oneway"] > 0

        sent = await server.read_until(f"{prefix}-send", is_there)
        assert {*_keys(sent)} <= acknowledged | others
        sizes = {message.keys[0]: message for message in await server.read(f"{prefix}-sizes", 3)}
        assert sizes["size-text"].body == b"x" * 100_000
        assert sizes["size-text"].size < 10_000

        topic, group = await server.topic(), unique("go-group")
        expected = await _send_every_kind(server, topic)
        command = language.command(server.name_server, unique("member"), home)
        with TestProcess("Go member", [*command, group, topic], home) as member:
            await server.until(lambda: expected.keys() <= {line.strip() for line in member.lines})

    asyncio.run(play())
