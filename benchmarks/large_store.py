"""`python -m benchmarks.large_store DIR`: a store with very many queues, or very many messages.

Every step is a process of its own, so that its memory is that step's. The directory is made, and
removed at the end.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks import machine
from benchmarks.process_facts import memory
from emberq.record.batch import encode_batch_element
from emberq.record.host import pack_host
from emberq.record.properties import encode_properties
from emberq.store.config import StoreConfig
from emberq.store.message_store import MessageStore
from emberq.store.reader import ReadLimits

HOST = pack_host("127.0.0.1", 10911)
QUEUES_PER_TOPIC = 8
MESSAGES_PER_QUEUE = 3
QUEUES_OF_MESSAGES = 16
BATCH = 32
BODY = b"sixteen bytes 16"
PROGRESS_EVERY = 1_000_000
READS = 200


class Step(Struct, kw_only=True):
    """What one process did and held."""

    name: str
    seconds: float
    cpu_seconds: float  # up to the end of opening or filling
    resident_mb: float
    anonymous_mb: float
    descriptors: int
    close_seconds: float | None = None
    detail: str = ""


def main() -> int:
    arguments = _arguments()
    if arguments.step is not None:
        STEPS[arguments.step](arguments.directory, arguments.count)
        return 0
    facts = machine.gather(java=None)
    print(f"{facts.cpu}, {facts.cores} cores, {facts.memory_gb} GB, load {facts.load_average:.1f}")
    print(f"commit {facts.commit}, kernel twin: {facts.twin}")
    names = QUEUE_STEPS if arguments.what == "queues" else MESSAGE_STEPS
    print(f"{arguments.count:,} {arguments.what}")
    head = f"{'step':30} {'open s':>8} {'CPU s':>8} {'close s':>8}"
    print(f"{head} {'RSS MB':>8} {'anon MB':>8} {'fds':>6}")
    try:
        for name in names:
            step = _run(name, arguments.directory, arguments.count)
            close = "" if step.close_seconds is None else f"{step.close_seconds:.1f}"
            print(
                f"{step.name:30} {step.seconds:8.2f} {step.cpu_seconds:8.2f} {close:>8} "
                f"{step.resident_mb:8.1f} "
                f"{step.anonymous_mb:8.1f} {step.descriptors:6}  {step.detail}",
                flush=True,
            )
    finally:
        if not arguments.keep:
            shutil.rmtree(arguments.directory, ignore_errors=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_store", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--what", choices=["queues", "messages"], default="queues")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--keep", action="store_true", help="leave the directory")
    parser.add_argument("--step", choices=sorted(STEPS), help=argparse.SUPPRESS)
    return parser.parse_args()


def _run(name: str, directory: Path, count: int) -> Step:
    """Run a step in a process of its own; what it prints last is its result."""
    command = [sys.executable, "-m", "benchmarks.large_store", str(directory)]
    command += ["--step", name, "--count", str(count)]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("#"):
                print(line.rstrip(), file=sys.stderr, flush=True)
            else:
                lines.append(line)
    expected = -signal.SIGKILL if name.endswith("-then-kill") else 0
    if process.returncode != expected:
        raise SystemExit(f"{name} ended with {process.returncode}")
    return msgspec.json.decode(lines[-1], type=Step)


# Steps


def _opened(directory: Path) -> tuple[MessageStore, float]:
    store = MessageStore(StoreConfig(store_path_root_dir=str(directory)), store_host=HOST)
    started = time.perf_counter()
    store.open()
    return store, time.perf_counter() - started


def _tell(step: Step) -> None:
    print(msgspec.json.encode(step).decode(), flush=True)


def _held(name: str, seconds: float, detail: str = "") -> Step:
    held = memory(os.getpid())
    return Step(
        name=name,
        seconds=seconds,
        cpu_seconds=time.process_time(),
        resident_mb=held.resident_mb,
        anonymous_mb=held.anonymous_mb,
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
        detail=detail,
    )


def _closed(store: MessageStore, step: Step) -> None:
    started = time.perf_counter()
    store.close()
    step.close_seconds = time.perf_counter() - started
    _tell(step)


def empty(directory: Path, count: int) -> None:
    """What a process costs before there is anything in its store."""
    store, seconds = _opened(directory)
    _closed(store, _held("open, empty", seconds))


def fill_queues(directory: Path, count: int) -> None:
    """A few messages for each queue, in turns."""
    store, _ = _opened(directory)
    started = time.perf_counter()
    for number in range(count * MESSAGES_PER_QUEUE):
        queue = number % count
        topic = f"Topic-{queue // QUEUES_PER_TOPIC:06d}"
        result = store.put(topic, queue % QUEUES_PER_TOPIC, BODY, born_host=HOST)
        assert result.status.is_stored, result
    seconds = time.perf_counter() - started
    _closed(store, _held("fill queues", seconds, f"{len(store.queues):,} queues"))


def open_queues(directory: Path, count: int) -> None:
    """Open after a clean stop, and look into queues."""
    store, seconds = _opened(directory)
    assert len(store.queues) == count
    step = _held("open after a clean stop", seconds, f"{len(store.queues):,} queues")
    _read_some(store)
    _closed(store, step)


def touch_queues_kill(directory: Path, count: int) -> None:
    """One more message for each queue, and death before anything is closed."""
    store, seconds = _opened(directory)
    for number in range(count):
        topic = f"Topic-{number // QUEUES_PER_TOPIC:06d}"
        store.put(topic, number % QUEUES_PER_TOPIC, BODY, born_host=HOST)
    _tell(_held("one message each, then killed", seconds))
    os.kill(os.getpid(), signal.SIGKILL)


def open_queues_after_kill(directory: Path, count: int) -> None:
    store, seconds = _opened(directory)
    assert len(store.queues) == count
    assert store.max_offset("Topic-000000", 0) == MESSAGES_PER_QUEUE + 1
    _closed(store, _held("open after a kill", seconds))


def fill_messages(directory: Path, count: int) -> None:
    """Small messages with a key each, in batches of 32 to 16 queues."""
    store, _ = _opened(directory)
    started = time.perf_counter()
    _put_batches(store, 0, count)
    seconds = time.perf_counter() - started
    step = _held("fill messages", seconds, f"{count / seconds:,.0f} messages/s")
    _closed(store, step)


def _put_batches(store: MessageStore, first: int, count: int) -> None:
    element = encode_batch_element(BODY, encode_properties({"KEYS": f"k{0:011d}"}))
    before, _, behind = element.partition(b"%011d" % 0)
    for number in range(first, first + count, BATCH):
        content = b"".join(
            [b"%b%011d%b" % (before, each, behind) for each in range(number, number + BATCH)]
        )
        queue_id = number // BATCH % QUEUES_OF_MESSAGES
        while True:
            result = store.put_encoded_batch("Many", queue_id, content, born_host=HOST)
            if result.status.is_stored:
                break
            assert "index" in result.reason, result  # the flusher must catch up
            time.sleep(0.01)
        if number // PROGRESS_EVERY != (number + BATCH) // PROGRESS_EVERY:
            held = memory(os.getpid())
            print(f"# {number + BATCH:,} messages, {held.anonymous_mb:.0f} MB", flush=True)


def open_messages(directory: Path, count: int) -> None:
    store, seconds = _opened(directory)
    total = sum(store.max_offset("Many", queue_id) for queue_id in range(QUEUES_OF_MESSAGES))
    assert total >= count, total
    step = _held("open after a clean stop", seconds, f"{total:,} messages")
    started = time.perf_counter()
    for number in range(READS):
        each = number * (count // READS)
        query = store.find_by_key("Many", f"k{each:011d}", 1, 0, 2**60)
        assert len(query.records) == 1, each
    look_up_ms = (time.perf_counter() - started) / READS * 1000
    _read_some(store)
    step.detail += f", {look_up_ms:.1f} ms per look-up by key"
    _closed(store, step)


def touch_messages_kill(directory: Path, count: int) -> None:
    store, seconds = _opened(directory)
    _put_batches(store, count, PROGRESS_EVERY)
    _tell(_held("a million more, then killed", seconds))
    os.kill(os.getpid(), signal.SIGKILL)


def open_messages_after_kill(directory: Path, count: int) -> None:
    store, seconds = _opened(directory)
    total = sum(store.max_offset("Many", queue_id) for queue_id in range(QUEUES_OF_MESSAGES))
    assert total >= count + PROGRESS_EVERY, total
    _closed(store, _held("open after a kill", seconds, f"{total:,} messages"))


def lose_queues(directory: Path, count: int) -> None:
    """Remove all consume queues and the index, which are rebuilt from the log."""
    shutil.rmtree(directory / "consumequeue")
    shutil.rmtree(directory / "index")
    _tell(_held("queues and index removed", 0.0))


def open_rebuilding(directory: Path, count: int) -> None:
    log_bytes = sum(path.stat().st_size for path in (directory / "commitlog").iterdir())
    store, seconds = _opened(directory)
    rate = log_bytes / seconds / 1e6
    _closed(store, _held("open, rebuilding both", seconds, f"{rate:.0f} MB/s of segments"))


def _read_some(store: MessageStore) -> None:
    for queue in list(store.queues)[:READS]:
        result = store.read_waiting(queue.topic, queue.queue_id, 0, ReadLimits())
        assert result.count > 0


STEPS: dict[str, Callable[[Path, int], None]] = {
    "empty": empty,
    "fill-queues": fill_queues,
    "open-queues": open_queues,
    "touch-queues-then-kill": touch_queues_kill,
    "open-queues-after-kill": open_queues_after_kill,
    "fill-messages": fill_messages,
    "open-messages": open_messages,
    "touch-messages-then-kill": touch_messages_kill,
    "open-messages-after-kill": open_messages_after_kill,
    "lose-queues": lose_queues,
    "open-rebuilding": open_rebuilding,
}
QUEUE_STEPS = [
    "empty",
    "fill-queues",
    "open-queues",
    "touch-queues-then-kill",
    "open-queues-after-kill",
    "open-queues",
]
MESSAGE_STEPS = [
    "empty",
    "fill-messages",
    "open-messages",
    "touch-messages-then-kill",
    "open-messages-after-kill",
    "lose-queues",
    "open-rebuilding",
]

if __name__ == "__main__":
    sys.exit(main())
