"""Push consumers: what their handlers get, and what becomes of messages that fail."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from emberq.aio import DeadLetter, Message, PushConsumer, ReceivedMessage, RetryLater, SuspendQueue
from tests.client_behaviour.scenario import behaviour
from tests.client_behaviour.server import Server, unique


async def _send(server: Server, topic: str, count: int, **options: Any) -> None:
    async with server.producer() as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, **options)


@behaviour()
async def async_and_plain_handlers_get_every_message_once(server: Server) -> None:
    topic = await server.topic()
    await _send(server, topic, 30)
    in_tasks: list[int] = []
    in_threads: list[tuple[int, int]] = []
    tasks, threads = server.pusher(unique("tasks")), server.pusher(unique("threads"))

    @tasks.subscribe(topic)
    async def note(message: ReceivedMessage) -> None:
        in_tasks.append(int(message.body))

    @threads.subscribe(topic)
    def note_in_thread(message: ReceivedMessage) -> None:
        in_threads.append((int(message.body), threading.get_ident()))

    async with tasks, threads:
        await server.until(lambda: len(in_tasks) >= 30 and len(in_threads) >= 30)

    assert sorted(in_tasks) == list(range(30))
    assert sorted(number for number, _ in in_threads) == list(range(30))
    assert threading.get_ident() not in {thread for _, thread in in_threads}


@behaviour()
async def messages_that_come_later_are_pushed_at_once(server: Server) -> None:
    topic = await server.topic()
    got: list[bytes] = []
    consumer = server.pusher(unique("readers"))

    @consumer.subscribe(topic)
    async def note(message: ReceivedMessage) -> None:
        got.append(message.body)

    async with consumer, server.producer() as producer:
        await consumer.settled()
        for number in range(3):
            await producer.send(topic, b"%d" % number)
            await server.until(lambda: len(got) == number + 1)  # noqa: B023 - asked now


@behaviour()
async def batches_are_lists_of_the_size_that_was_asked_for(server: Server) -> None:
    topic = await server.topic(queues=1)
    async with server.producer() as producer:
        await producer.send_batch(Message(topic, b"%d" % number) for number in range(20))
    sizes: list[int] = []
    got: list[int] = []
    consumer = server.pusher(unique("readers"))

    @consumer.subscribe(topic, batch_size=8)
    async def note(messages: list[ReceivedMessage]) -> None:
        sizes.append(len(messages))
        got.extend(int(message.body) for message in messages)

    async with consumer:
        await server.until(lambda: len(got) >= 20)

    assert sorted(got) == list(range(20))
    assert max(sizes) == 8


@behaviour()
async def tags_and_sql_choose_messages(server: Server) -> None:
    topic = await server.topic()
    async with server.producer() as producer:
        for number in range(12):
            tags = ("red", "green", "blue")[number % 3]
            await producer.send(topic, b"%d" % number, tags=tags, properties={"n": str(number)})
    by_tag: set[int] = set()
    by_sql: set[int] = set()
    tagged, chosen = server.pusher(unique("tagged")), server.pusher(unique("chosen"))

    @tagged.subscribe(topic, tags="red || blue")
    async def note_tag(message: ReceivedMessage) -> None:
        by_tag.add(int(message.body))

    @chosen.subscribe(topic, sql="TAGS = 'green' AND n > 3 OR n BETWEEN 0 AND 1")
    async def note_sql(message: ReceivedMessage) -> None:
        by_sql.add(int(message.body))

    async with tagged, chosen:
        await server.until(lambda: len(by_tag) >= 8 and len(by_sql) >= 5)

    assert by_tag == {number for number in range(12) if number % 3 != 1}
    assert by_sql == {0, 1, 4, 7, 10}


@behaviour()
async def what_fails_comes_again_and_then_goes_to_the_dead_letters(server: Server) -> None:
    topic, group = await server.topic(), unique("readers")
    await _send(server, topic, 1, tags="t", keys="k")
    attempts: list[tuple[str, int, str]] = []
    consumer = server.pusher(group, max_reconsume_times=2)

    @consumer.subscribe(topic)
    async def fail(message: ReceivedMessage) -> None:
        attempts.append((message.topic, message.delivery_attempt, message.message_id))
        raise RetryLater(delay_level=1)

    async with consumer:
        await server.until(lambda: len(attempts) == 3)
        [dead] = await _dead(server, group)

    assert [attempt[:2] for attempt in attempts] == [(topic, number) for number in (1, 2, 3)]
    assert {message_id for *_, message_id in attempts} == {dead.message_id}
    assert (dead.body, dead.tags, dead.keys) == (b"0", "t", ["k"])


@behaviour()
async def a_handler_can_give_up_at_once(server: Server) -> None:
    topic, group = await server.topic(), unique("readers")
    await _send(server, topic, 1)
    attempts: list[int] = []
    consumer = server.pusher(group)

    @consumer.subscribe(topic)
    async def fail(message: ReceivedMessage) -> None:
        attempts.append(message.delivery_attempt)
        raise DeadLetter("never")

    async with consumer:
        [dead] = await _dead(server, group)

    assert (attempts, dead.body) == ([1], b"0")


async def _dead(server: Server, group: str) -> list[ReceivedMessage]:
    """The dead letters of a group, when there are any; their topic comes with the first."""
    topic = f"%DLQ%{group}"
    async with server.client() as client:
        while True:
            await client.routes.refresh_all([topic])
            if client.routes.known(topic):
                return await server.read(topic, 1)
            await asyncio.sleep(0.05)


@behaviour()
async def a_new_group_begins_where_it_was_told(server: Server) -> None:
    """A young topic may be read from its start in any case; what comes later must come."""
    topic = await server.topic()
    await _send(server, topic, 4)
    early = datetime.now(UTC) - timedelta(hours=1)
    got: dict[str, set[bytes]] = {}

    def consumer(where: str) -> PushConsumer:
        made = server.pusher(
            unique("starters"),
            consume_from_where=f"CONSUME_FROM_{where}",
            consume_timestamp=early,
        )
        seen = got[where] = set()

        @made.subscribe(topic)
        async def note(message: ReceivedMessage) -> None:
            seen.add(message.body)

        return made

    async with (
        consumer("FIRST_OFFSET") as first,
        consumer("LAST_OFFSET") as last,
        consumer("TIMESTAMP") as timed,
    ):
        for each in (first, last, timed):
            await each.settled()
        async with server.producer() as producer:
            await producer.send(topic, b"later")
        await server.until(lambda: all(b"later" in seen for seen in got.values()))
        everything = {b"0", b"1", b"2", b"3", b"later"}
        await server.until(lambda: got["FIRST_OFFSET"] == got["TIMESTAMP"] == everything)


@behaviour()
async def a_group_goes_on_where_it_was(server: Server) -> None:
    topic, group = await server.topic(), unique("readers")
    got: list[int] = []

    async def consume(until_count: int) -> None:
        consumer = server.pusher(group)

        @consumer.subscribe(topic)
        async def note(message: ReceivedMessage) -> None:
            got.append(int(message.body))

        async with consumer:
            await server.until(lambda: len(got) >= until_count)

    await _send(server, topic, 10)
    await consume(10)
    async with server.producer() as producer:
        await producer.send(topic, b"10")
    await consume(11)

    assert sorted(got) == list(range(11))


@behaviour()
async def in_order_every_key_keeps_its_order_and_failures_wait(server: Server) -> None:
    topic = await server.topic()
    async with server.producer() as producer:
        for number in range(8):
            for key in ("a", "b", "c"):
                await producer.send(topic, f"{key}{number}".encode(), ordering_key=key)
    got: dict[str, list[int]] = {}
    failures: list[str] = []
    consumer = server.pusher(unique("ordered"), ordered=True)

    @consumer.subscribe(topic)
    async def note(message: ReceivedMessage) -> None:
        key, number = message.text()[0], int(message.text()[1:])
        if number == 3 and len(failures) < 2:
            failures.append(key)
            raise SuspendQueue(seconds=0.05)
        got.setdefault(key, []).append(number)

    async with consumer:
        await server.until(lambda: sum(map(len, got.values())) >= 24)

    assert got == {key: list(range(8)) for key in "abc"}
    assert len(failures) == 2


@behaviour()
async def in_order_a_message_that_has_had_its_chances_makes_way(server: Server) -> None:
    topic = await server.topic(queues=1)
    await _send(server, topic, 3)
    got: list[tuple[int, int]] = []
    consumer = server.pusher(unique("ordered"), ordered=True, max_reconsume_times=1)

    @consumer.subscribe(topic)
    async def note(message: ReceivedMessage) -> None:
        got.append((int(message.body), message.delivery_attempt))
        if message.body == b"0" and message.delivery_attempt < 3:
            raise SuspendQueue(seconds=0.01)

    async with consumer:
        await server.until(lambda: len(got) >= 4 and (2, 1) in got)

    assert got[:4] == [(0, 1), (0, 2), (1, 1), (2, 1)]


@behaviour()
async def broadcasting_members_get_everything_and_remember_how_far_they_are(
    server: Server,
) -> None:
    topic, group = await server.topic(), unique("radio")
    await _send(server, topic, 5)
    got: dict[str, list[int]] = {"one": [], "two": []}

    async def listen(name: str, count: int, folder: Path) -> None:
        async with server.client(instance_name=name) as client:
            consumer = server.pusher(
                group, client=client, message_model="BROADCASTING", offsets_folder=folder
            )

            @consumer.subscribe(topic)
            async def note(message: ReceivedMessage) -> None:
                got[name].append(int(message.body))

            async with consumer:
                await server.until(lambda: len(got[name]) >= count)

    with TemporaryDirectory() as folder:
        await asyncio.gather(*(listen(name, 5, Path(folder)) for name in got))
        async with server.producer() as producer:
            await producer.send(topic, b"5")
        await listen("one", 6, Path(folder))

    assert sorted(got["one"]) == list(range(6))
    assert sorted(got["two"]) == list(range(5))


@behaviour()
async def a_paused_consumer_gets_the_rest_when_it_is_resumed(server: Server) -> None:
    topic = await server.topic(queues=1)
    await _send(server, topic, 1)
    paused_got: list[int] = []
    other_got: list[int] = []
    paused, other = server.pusher(unique("paused")), server.pusher(unique("others"))

    @paused.subscribe(topic)
    async def note(message: ReceivedMessage) -> None:
        paused_got.append(int(message.body))

    @other.subscribe(topic)
    async def note_other(message: ReceivedMessage) -> None:
        other_got.append(int(message.body))

    async with paused, other:
        await server.until(lambda: paused_got and other_got)
        paused.pause()
        async with server.producer() as producer:
            for number in range(1, 11):
                await producer.send(topic, b"%d" % number)
                await server.until(lambda: number in other_got)  # noqa: B023 - asked now
        # The pull that was under way brings what it finds; none follows.
        assert len(paused_got) < 11
        paused.resume()
        await server.until(lambda: sorted(paused_got) == list(range(11)))


@behaviour()
async def traces_of_handlers_say_how_they_ended(server: Server) -> None:
    topic, trace_topic = await server.topic(), await server.topic(queues=1)
    await _send(server, topic, 1)
    done = asyncio.Event()
    consumer = server.pusher(unique("readers"), trace=trace_topic)

    @consumer.subscribe(topic)
    async def note(message: ReceivedMessage) -> None:
        done.set()

    async with consumer:
        await server.until(done.is_set)
    # Half a second of records is one message; a slow machine may need two.
    messages = await server.read_until(trace_topic, lambda found: len(_kinds(found)) >= 2)

    assert _kinds(messages) == ["SubBefore", "SubAfter"]


def _kinds(traces: list[ReceivedMessage]) -> list[str]:
    records = "".join(trace.text() for trace in traces).split("\x02")
    return [record.split("\x01")[0] for record in records if record]
