"""A store directory on its way: who writes next, how it ends, and what must be found each time."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.harness.processes import TestProcess
from tests.interop.harness.waiting import eventually
from tests.interop.store_checks import (
    check_begins_with,
    check_found_every_way,
    check_queues_and_index_hold_the_log,
    messages_of,
    opened,
)
from tests.interop.store_messages import SeenMessage, by_key, by_queue, seen
from tests.interop.store_sizes import QUEUE_COUNT, TOPIC
from tests.interop.store_station import Ending, Station, copy_store

ROUNDS = 20
AGED_MS = 3_600_000
DELIVERY_TIMEOUT_S = 40.0
WRITER_TIMEOUT_S = 60.0
# Official brokers name no more messages of one key.
FOUND_MAX = 64


class Journey:
    """Each writer finds everything that was there before, then adds messages of every kind."""

    def __init__(self, station: Station, known: list[SeenMessage]) -> None:
        self._station = station
        self._stop_count = 0
        self.known = known
        self._awaited_keys: set[str] = set()  # of delayed messages that a broker has to deliver

    def check_with_emberq(self, *, is_in_place: bool = False) -> None:
        """EmberQ finds everything; in a copy, unless its opening and closing is to remain."""
        root = self._station.store
        if not is_in_place:
            root = self._station.home / "checked"
            copy_store(self._station.store, root)
        with opened(root, self._station.port) as store:
            found = messages_of(store)
            check_begins_with(found, self.known)
            check_found_every_way(store, found)
            check_queues_and_index_hold_the_log(store)
        self.known = found
        if not is_in_place:
            shutil.rmtree(root)

    def append_with_emberq(self, ending: Ending, *, age_ms: int = 0) -> None:
        """Check, then let another process append messages, some of them so long ago."""
        self.check_with_emberq()
        mark = self._next_mark("emberq")
        ends = ("wait", "waiting") if ending is Ending.KILLED else ("close", "closed")
        words = (str(self._station.store), str(self._station.port), mark, str(ROUNDS), str(age_ms))
        command = [sys.executable, "-m", "tests.interop.store_writer", *words, ends[0]]
        environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
        with TestProcess("EmberQ writer", command, environment=environment) as writer:
            writer.wait_for_line(f"^{ends[1]}$", WRITER_TIMEOUT_S)
            if ending is Ending.CLOSED:
                writer.wait_until_ended(WRITER_TIMEOUT_S)
            lines = list(writer.lines)
        added = [seen(line.removeprefix("put ")) for line in lines if line.startswith("put ")]
        check_begins_with([*self.known, *added], self.known)
        self.known = [*self.known, *added]
        self._awaited_keys.add(f"{mark}-soon")

    @contextmanager
    def official_broker(self, ending: Ending) -> Iterator[None]:
        """A broker on the directory: it must serve and find everything, then it takes more."""
        station = self._station
        with station.serving(ending):
            if self.known:
                self._check_with_broker()
            yield
            now = send_every_kind(station, self._next_mark("official"))
            check_begins_with(now, self.known)
        self.known = now

    def _check_with_broker(self) -> None:
        pulled = pull_until(self._station, self._awaited_keys)
        check_begins_with(pulled, self.known)
        check_found_by_broker(self._station, pulled)
        self.known = pulled
        self._awaited_keys.clear()

    def _next_mark(self, writer: str) -> str:
        self._stop_count += 1
        return f"{writer}-{self._station.line.name}-{self._stop_count}"


def send_every_kind(station: Station, mark: str) -> list[SeenMessage]:
    """Send with the official client; everything that the topic then has."""
    *sent, _later, _committed, _rolled_back = station.shell.ask("send", TOPIC, mark, str(ROUNDS))
    pulled = pull_until(station, {f"{mark}-soon", f"{mark}-Commit"})
    sent_ids = {unique_key for line in sent for unique_key in line.split("\t")[0].split(",")}
    assert sent_ids <= {message.message_id for message in pulled}
    return pulled


def pull_until(station: Station, keys: set[str]) -> list[SeenMessage]:
    """Everything that the topic has, once messages with these keys were delivered."""

    def pull() -> list[SeenMessage]:
        return [seen(line) for line in station.shell.ask("pull", TOPIC, str(QUEUE_COUNT))]

    return eventually(pull, lambda pulled: keys <= by_key(pulled).keys(), DELIVERY_TIMEOUT_S)


def check_found_by_broker(station: Station, known: list[SeenMessage]) -> None:
    """The broker finds messages by key, by offset id, by unique key and, if it can, by time."""
    ask = station.shell.ask
    keys = by_key(known)
    for (key, offsets), answer in zip(keys.items(), ask("find", TOPIC, *keys), strict=True):
        found = [int(word) for word in answer.split()]
        assert offsets <= set(found) or len(found) == FOUND_MAX, key
    offset_ids = [message.offset_id for message in known]
    for message, line in zip(known, ask("view", TOPIC, *offset_ids), strict=True):
        assert seen(line) == message
    # A delayed message comes again, under the same key, if its broker was killed in time.
    copies = {(message.message_id, message.log_offset) for message in known}
    unique_keys = [message.message_id for message in known]
    for unique_key, line in zip(unique_keys, ask("view", TOPIC, *unique_keys), strict=True):
        assert (unique_key, seen(line).log_offset) in copies
    if station.line.is_v5:  # 4.9 goes by the times of files, which are up to a second off
        check_time_answers(station, known)


def check_time_answers(station: Station, known: list[SeenMessage]) -> None:
    for queue_id, messages in by_queue(known).items():
        times = [str(message.stored_at_ms) for message in messages]
        answers = station.shell.ask("time", TOPIC, str(queue_id), *times)
        for message, answer in zip(messages, answers, strict=True):
            first = messages[int(answer) - messages[0].queue_offset]
            assert first.stored_at_ms == message.stored_at_ms
            assert first.queue_offset <= message.queue_offset
