"""`python -m benchmarks.store`: what the store costs, beside the least that its bytes could cost.

Every figure stands beside one of the same run: (a) a bare loop that copies the same bytes into a
mapping and sums them, (b) a bare loop of write and sync. CPU is that of the writing thread; the
flusher's is not in it. EMBERQ_PURE=1 measures the pure twin of the kernel.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks import machine
from benchmarks import store_workload as workload
from benchmarks.store_workload import BATCH, QUEUES, TURN, Turns
from emberq.kernel import COMPILED, TWIN
from emberq.remoting.event_loop import loop_factory
from emberq.store.message_store import MessageStore

LOG_BYTES_PER_ROW = 96 * 1024 * 1024
ROUNDS = 3
RANDOM_READS = 20_000

SINGLE_GOAL_US = 6.0
BATCH_GOAL_US = 1.5 if TWIN == COMPILED else 3.0
LARGE_RATIO_MAX = 1.5
SYNC_SHARE_MIN = 0.8
SYNC_EXTRA_MAX_US = 100.0
RECOVERY_GOALS_MB = {128: 100.0, 1024: 300.0}

Put = Callable[[MessageStore, Turns, bytes, int], None]


class Row(Struct, kw_only=True):
    """One measurement; `bare` is the same without a store."""

    name: str
    figure: float
    unit: str
    bare: float | None = None
    goal: str = ""
    is_met: bool | None = None


class Bench:
    """Measures into rows, in a scratch folder of its own."""

    def __init__(self, scratch: Path, scale: float) -> None:
        self._scratch = scratch
        self._scale = scale
        self.rows: list[Row] = []

    def run(self, *, only_sync: bool = False) -> None:
        if only_sync:
            for number in range(int(60_000 * self._scale) + 640):
                workload.properties(workload.unique_key(number))
            self._sync()
            return
        for body_size in (128, 1024, 64 * 1024):
            self._append(body_size)
        for body_size in (128, 1024, 64 * 1024):
            self._append_batches(body_size)
        self._read(1024)
        for body_size in (128, 1024):
            self._recover(body_size, has_checkpoint=False)
            self._recover(body_size, has_checkpoint=True)
        self._sync()

    # Appending

    def _append(self, body_size: int) -> None:
        body = os.urandom(body_size)
        messages = self._count(body_size)
        us, dispatch_us, bare = self._best(workload.put_singles, body, messages)
        if body_size <= 1024:
            goal, is_met = f"≤ {SINGLE_GOAL_US:g} µs", us <= SINGLE_GOAL_US
        else:
            goal, is_met = f"≤ {LARGE_RATIO_MAX:g} × bare", us <= LARGE_RATIO_MAX * bare
        self._add(f"append {_size(body_size)}", us, "CPU-µs", bare, goal, is_met)
        self._add("  of which dispatch and index", dispatch_us, "CPU-µs")

    def _append_batches(self, body_size: int) -> None:
        body = os.urandom(body_size)
        messages = max(self._count(body_size) // BATCH, 1) * BATCH
        for first in range(0, messages, BATCH):
            workload.batch(first, body)
        us, _, bare = self._best(workload.put_batches, body, messages)
        goal, is_met = "", None
        if body_size == 128:
            goal, is_met = f"≤ {BATCH_GOAL_US:g} µs", us <= BATCH_GOAL_US
        elif body_size == 64 * 1024:
            goal, is_met = f"≤ {LARGE_RATIO_MAX:g} × bare", us <= LARGE_RATIO_MAX * bare
        self._add(f"append {BATCH} × {_size(body_size)}", us, "CPU-µs", bare, goal, is_met)
        workload.batch.cache_clear()

    def _best(self, put: Put, body: bytes, messages: int) -> tuple[float, float, float]:
        """CPU-µs per message: all of it, dispatch of it, and the bare loop; in turns."""
        for number in range(messages):
            workload.properties(workload.unique_key(number))
        best = (float("inf"), 0.0)
        bare = float("inf")
        for _ in range(ROUNDS):
            turns = Turns()
            with self._store(turns) as store:
                began = time.thread_time()
                put(store, turns, body, messages)
                took = time.thread_time() - began
            best = min(best, (took / messages * 1e6, turns.cpu_s / messages * 1e6))
            bare = min(bare, workload.bare_copy(self._scratch, body, messages))
        return *best, bare

    # Reading

    def _read(self, body_size: int) -> None:
        turns = Turns()
        with self._store(turns) as store:
            messages = self._count(body_size) // QUEUES * QUEUES
            workload.put_singles(store, turns, os.urandom(body_size), messages)
            began = time.thread_time()
            total = sum(workload.read_in_order(store, queue_id) for queue_id in range(QUEUES))
            us = (time.thread_time() - began) / messages * 1e6
            assert total == messages, (total, messages)
            self._add(f"read {_size(body_size)}, 32 at a time", us, "CPU-µs")
            times = int(RANDOM_READS * self._scale)
            began = time.thread_time()
            assert workload.read_at_random(store, messages, times) == times
            us = (time.thread_time() - began) / times * 1e6
            self._add(f"read {_size(body_size)}, one at random", us, "CPU-µs")

    # Recovery

    def _recover(self, body_size: int, *, has_checkpoint: bool) -> None:
        turns = Turns()
        messages = self._count(body_size)
        with self._store(turns, keeps=True) as store:
            workload.put_singles(store, turns, os.urandom(body_size), messages)
            size, root = store.log.end, store.config.root
            bare = workload.bare_sum(store, size // messages)
        (root / "abort").touch()
        if not has_checkpoint:
            (root / "checkpoint").unlink()  # nothing is known to be good: all is read again
        store = workload.new_store(root, Turns())
        began = time.perf_counter()
        recovered = store.open()
        speed = size / (time.perf_counter() - began) / 1e6
        assert recovered.records_scanned == messages
        store.close()
        shutil.rmtree(root)
        goal = RECOVERY_GOALS_MB[body_size]
        kind = "with" if has_checkpoint else "no"
        name = f"recovery, {_size(body_size)}, {kind} checkpoint"
        self._add(name, speed, "MB/s", bare, f"≥ {goal:g}", speed >= goal)

    # Durability

    def _sync(self) -> None:
        bare_us = workload.bare_sync(self._scratch, int(600 * self._scale) + 20)
        one, _ = self._synced(writers=1, messages=int(1_000 * self._scale) + 20)
        extra = 1e6 / one - bare_us
        self._add(
            "SYNC_FLUSH, 1 writer, beyond the sync",
            extra,
            "µs",
            bare_us,
            f"≤ {SYNC_EXTRA_MAX_US:g}",
            extra <= SYNC_EXTRA_MAX_US,
        )
        many, cpu_us = self._synced(writers=64, messages=int(60_000 * self._scale) + 640)
        ceiling = min(64 * 1e6 / bare_us, self._async_rate())
        self._add(
            "SYNC_FLUSH, 64 writers",
            many,
            "messages/s",
            ceiling,
            f"≥ {SYNC_SHARE_MIN:.0%} of the ceiling",
            many >= SYNC_SHARE_MIN * ceiling,
        )
        self._add("  of which the loop works", cpu_us, "CPU-µs")

    def _synced(self, writers: int, messages: int) -> tuple[float, float]:
        root = Path(tempfile.mkdtemp(dir=self._scratch))
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            synced = runner.run(workload.put_synced(root, writers, messages))
        shutil.rmtree(root)
        return synced

    def _async_rate(self) -> float:
        turns = Turns()
        messages = self._count(128)
        with self._store(turns) as store:
            began = time.perf_counter()
            workload.put_singles(store, turns, os.urandom(128), messages)
            return messages / (time.perf_counter() - began)

    # Scratch

    def _count(self, body_size: int) -> int:
        return max(TURN * 8, int(LOG_BYTES_PER_ROW * self._scale) // (body_size + 200))

    @contextmanager
    def _store(self, turns: Turns, *, keeps: bool = False) -> Iterator[MessageStore]:
        root = Path(tempfile.mkdtemp(dir=self._scratch))
        store = workload.new_store(root, turns)
        store.open()
        try:
            yield store
        finally:
            store.close()
            if not keeps:
                shutil.rmtree(root)

    def _add(
        self,
        name: str,
        figure: float,
        unit: str,
        bare: float | None = None,
        goal: str = "",
        is_met: bool | None = None,
    ) -> None:
        row = Row(name=name, figure=figure, unit=unit, bare=bare, goal=goal, is_met=is_met)
        self.rows.append(row)
        print(_line(row), flush=True)


def _size(size_bytes: int) -> str:
    return f"{size_bytes} B" if size_bytes < 1024 else f"{size_bytes // 1024} KiB"


def _line(row: Row) -> str:
    bare = "" if row.bare is None else f"{row.bare:,.1f}"
    ratio = "" if not row.bare else f"{row.figure / row.bare:.2f}"
    verdict = {True: "met", False: "MISSED", None: ""}[row.is_met]
    return (
        f"{row.name:<40}{row.figure:>12,.1f} {row.unit:<11}{bare:>12}{ratio:>8}  "
        f"{row.goal:<24}{verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    parser.add_argument("--only-sync", action="store_true", help="only the rows of SYNC_FLUSH")
    parser.add_argument("--scratch", type=Path, help="folder on the disk to measure")
    parser.add_argument("--output", type=Path, help="store the figures here as JSON")
    arguments = parser.parse_args()
    facts = machine.gather(java=None)
    print(f"{facts.twin} kernel, Python {facts.python}, load average {facts.load_average}")
    print(f"{'store':<40}{'figure':>12} {'':<11}{'bare':>12}{'ratio':>8}  goal")
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
        bench = Bench(Path(scratch), 0.1 if arguments.quick else 1.0)
        bench.run(only_sync=arguments.only_sync)
    if arguments.output is not None:
        figures = {"facts": facts, "rows": bench.rows}
        text = msgspec.json.format(msgspec.json.encode(figures), indent=2)
        arguments.output.write_bytes(text + b"\n")


if __name__ == "__main__":
    main()
