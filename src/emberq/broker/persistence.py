"""Saves the broker's tables: a snapshot on the loop, the file in a thread."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from emberq.broker.metadata_files import MetadataFile

log = logging.getLogger(__name__)

# After a failed write: a full disk is not asked again at once.
RETRY_INTERVAL_S = 5.0
# A table of ten thousand topics takes 0.2 s of Python to write; while topics come one by one,
# the writing of them may have this share of the time and no more.
WRITING_SHARE_MAX = 0.1

T = TypeVar("T", bound=Struct)


class Persistence:
    """All tables of a broker that are kept in files."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._tables: dict[str, _SavedTable] = {}
        self._closing = asyncio.Event()

    def add(
        self, name: str, file: MetadataFile[T], snapshot: Callable[[], T], interval_s: float = 0.0
    ) -> Callable[[], None]:
        """Keep a table in a file. Returns what marks it as changed: it is then written after
        `interval_s`, with 0 at once. `snapshot` must return what later changes leave alone."""
        assert name not in self._tables, name
        table = _SavedTable(name, file, snapshot, interval_s, self._clock, self._cpu_clock)
        self._tables[name] = table
        return lambda: self._mark(table)

    def mark(self, name: str) -> None:
        """A table has changed; it will be written in its time."""
        self._mark(self._tables[name])

    async def save_now(self, name: str) -> None:
        """Return when the file holds every change so far. Raises OSError."""
        await self._tables[name].save()

    async def close(self) -> None:
        """Save everything that is not saved yet; a table that cannot be is logged."""
        self._closing.set()
        for table in self._tables.values():
            if table.task is not None:
                await table.task
            await _try_to_save(table)

    def _mark(self, table: "_SavedTable") -> None:
        table.wanted += 1
        if table.task is None and not self._closing.is_set():
            table.task = asyncio.get_running_loop().create_task(self._write_later(table))

    async def _write_later(self, table: "_SavedTable") -> None:
        try:
            while table.is_dirty and not self._closing.is_set():
                await self._pause(table.pause_s)
                await _try_to_save(table)
        finally:
            table.task = None

    async def _pause(self, pause_s: float) -> None:
        if pause_s > 0:
            try:
                async with asyncio.timeout(pause_s):
                    await self._closing.wait()
            except TimeoutError:
                return


class _SavedTable:
    """One table: which changes are wanted on disk, and which are there."""

    def __init__(
        self,
        name: str,
        file: MetadataFile[Any],
        snapshot: Callable[[], Any],
        interval_s: float,
        clock: Callable[[], float],
        cpu_clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._cpu_clock = cpu_clock
        self.name = name
        self.file = file
        self.snapshot = snapshot
        self.interval_s = interval_s
        self.wanted = 0
        self.saved = 0
        self.task: asyncio.Task[None] | None = None  # writes in its time
        self._write: asyncio.Task[None] | None = None  # is under way
        self._not_before = 0.0

    @property
    def pause_s(self) -> float:
        """How long a write that nobody waits for should wait now."""
        return max(self.interval_s, self._not_before - self._clock())

    @property
    def is_dirty(self) -> bool:
        return self.saved != self.wanted

    async def save(self) -> None:
        """Bring every change so far to disk; who comes while a write is under way shares the
        next one. Raises OSError."""
        target = self.wanted
        while self.saved < target:
            if self._write is None:
                self._write = asyncio.get_running_loop().create_task(self._save_snapshot())
                self._write.add_done_callback(_look_at_result)
            # Who waits may be cancelled; a thread that writes cannot be.
            await asyncio.shield(self._write)

    async def _save_snapshot(self) -> None:
        covered = self.wanted
        try:
            cpu_s = await asyncio.to_thread(self._write_file, self.snapshot())
        except Exception:
            self._not_before = self._clock() + RETRY_INTERVAL_S
            raise
        else:
            self.saved = covered
            self._not_before = self._clock() + cpu_s * (1 / WRITING_SHARE_MAX - 1)
        finally:
            self._write = None

    def _write_file(self, snapshot: Any) -> float:
        """In a thread; returns the time that it took from the loop, which waiting does not."""
        began = self._cpu_clock()
        self.file.save(snapshot)
        return self._cpu_clock() - began


def _look_at_result(write: "asyncio.Task[None]") -> None:
    """An error that nobody waited for any more is no surprise."""
    if not write.cancelled():
        write.exception()


async def _try_to_save(table: _SavedTable) -> None:
    try:
        await table.save()
    except OSError as error:
        log.error(  # noqa: TRY400 - the disk's own words are enough
            "table_not_saved table=%s path=%s reason=%s",
            table.name,
            table.file.path,
            error.strerror or error,
        )
    except Exception:  # of our own making; the other tables and the next try must not suffer
        log.exception("table_broken table=%s", table.name)
