"""Lives of a timer store on a disk that loses power: a model of what must still be waiting."""

from collections import Counter
from pathlib import Path
from random import Random

from emberq.store.timers.timer_store import TimerStore
from emberq.testing.faulty_disk import FaultyDisk

PRECISION_MS = 1000
START_MS = 1_700_000_000_000
RECORD_SIZE = 100
UNITS_PER_FILE = 7
FILE_SIZE = UNITS_PER_FILE * 52 + 16
SLOTS = 12
WHEEL_SIZE = 16 * 4096  # a small one: the disk keeps a copy for every life


class TimerLives:
    """Messages are numbers; number n stands at log offset n × RECORD_SIZE, queue offset n."""

    def __init__(self, root: Path, random: Random) -> None:
        self._root = root
        self._random = random
        self._disk = FaultyDisk(root)
        self._now_ms = START_MS
        self._due: list[int] = []  # of every message; the commit log never loses one
        self.delivered: Counter[int] = Counter()

    def live(self) -> None:
        """Open the store, check it, use it, and end by a stop, a kill or a power failure."""
        timers = self._opened(self._disk)
        self._check(timers)
        flushed_steps = len(self._disk.history)
        for _ in range(self._random.randint(1, 8)):
            self._random.choice((self._put_some, self._put_some, self._flush, self._deliver))(
                timers
            )
        end = self._random.choice(("stop", "kill", "power"))
        if end == "stop":
            self._flush(timers)
        elif end == "power":
            steps = self._random.randint(flushed_steps, len(self._disk.history))
            self._disk = self._disk.after_power_loss(self._random, steps)
            return
        self._disk = self._disk.copy()

    def _opened(self, disk: FaultyDisk) -> TimerStore:
        timers = TimerStore(
            disk,
            self._root,
            precision_ms=PRECISION_MS,
            file_size=FILE_SIZE,
            roll_window=172_800,
            wheel_size=WHEEL_SIZE,
        )
        timers.open(
            len(self._due) * RECORD_SIZE, self._now_ms, lambda offset: offset // RECORD_SIZE
        )
        self._enqueue_from(timers, timers.queue_offset)
        return timers

    def _put_some(self, timers: TimerStore) -> None:
        first = len(self._due)
        for _ in range(self._random.randint(1, 10)):
            slot_ms = self._now_ms + self._random.randint(0, SLOTS) * PRECISION_MS
            self._due.append(slot_ms + self._random.randint(1, PRECISION_MS))
        self._enqueue_from(timers, first)

    def _enqueue_from(self, timers: TimerStore, first: int) -> None:
        for number in range(first, len(self._due)):
            log_offset, due_ms = number * RECORD_SIZE, self._due[number]
            slot_ms = (due_ms - 1) // PRECISION_MS * PRECISION_MS
            if log_offset in timers.enqueued:
                continue
            if slot_ms + PRECISION_MS <= self._now_ms:
                self.delivered[number] += 1
                continue
            timers.enqueue(
                slot_ms, due_ms, self._now_ms, log_offset, RECORD_SIZE, 7, is_deletion=False
            )
        timers.queue_offset = len(self._due)
        timers.enqueued = frozenset()

    def _flush(self, timers: TimerStore) -> None:
        changes = timers.changes(self._now_ms)
        timers.write(changes)
        timers.written(changes)

    def _deliver(self, timers: TimerStore) -> None:
        """Time goes on by some slots, and what is due is delivered."""
        self._now_ms += self._random.randint(1, 3) * PRECISION_MS
        times = sorted(
            time_ms
            for time_ms, _ in timers.wheel.slots_from(timers.read_time_ms)
            if time_ms < self._now_ms
        )
        for time_ms in times:
            for _, number in self._content(timers, time_ms):
                self.delivered[number] += 1
            timers.leave(time_ms)
        timers.read_time_ms = self._now_ms
        timers.overdue_ms = []

    def _content(self, timers: TimerStore, slot_ms: int) -> list[tuple[int, int]]:
        last = timers.wheel.slot(slot_ms).last
        order = timers.load_slot(slot_ms, last, lambda _: None).order
        return [(due_ms, entry.log_offset // RECORD_SIZE) for due_ms, entry in order]

    def _check(self, timers: TimerStore) -> None:
        """Whatever is not delivered waits, once, at its time; the count is right."""
        waiting = [
            entry
            for time_ms, _ in timers.wheel.slots_from(timers.read_time_ms)
            for entry in self._content(timers, time_ms)
        ]
        numbers = [number for _, number in waiting]
        assert len(numbers) == len(set(numbers)), "a message waits twice"
        assert all(self._due[number] == due_ms for due_ms, number in waiting)
        lost = set(range(len(self._due))) - self.delivered.keys() - set(numbers)
        assert not lost, f"lost: {sorted(lost)}"
        assert timers.waiting_count == len(numbers)
