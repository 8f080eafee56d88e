"""Syncs of the active segment that need no interpreter to begin and to end.

Under SYNC_FLUSH the flusher's own thread would wait for a busy loop twice per sync. Here a thread
of C syncs again and again while messages arrive, and wakes the loop through a descriptor. Linux
only, and only where `sync_thread` was compiled; elsewhere the flusher does it.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from emberq.store.disk import MappedFile
from emberq.store.turn_dispatch import Schedule

if TYPE_CHECKING:
    from emberq.store.sync_thread import SyncThread


class DescriptorWatcher(Protocol):
    """An event loop, as far as descriptors go."""

    def add_reader(self, fd: int, callback: Callable[[], object], /) -> object: ...

    def remove_reader(self, fd: int, /) -> object: ...


def direct_sync(
    watcher: DescriptorWatcher | None,
    schedule_from_thread: Schedule | None,
    synced_offset: int,
    on_outcome: Callable[[], None],
) -> "DirectSync | None":
    """None where it cannot be had."""
    if watcher is None or schedule_from_thread is None or not hasattr(os, "eventfd"):
        return None
    if os.environ.get("EMBERQ_PURE", "") not in ("", "0"):
        return None
    try:
        from emberq.store.sync_thread import SyncThread  # noqa: PLC0415 - may not be compiled
    except ImportError:
        return None
    event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    thread = SyncThread(event, synced_offset)
    return DirectSync(watcher, schedule_from_thread, event, thread, on_outcome)


class DirectSync:
    """`on_outcome` is called on the loop after every sync."""

    def __init__(
        self,
        watcher: DescriptorWatcher,
        schedule_from_thread: Schedule,
        event: int,
        thread: "SyncThread",
        on_outcome: Callable[[], None],
    ) -> None:
        self._watcher = watcher
        self._schedule_from_thread = schedule_from_thread
        self._event = event
        self._thread = thread
        self._on_outcome = on_outcome
        # The file that the thread may be syncing: it must not be closed under it.
        self._file: MappedFile | None = None
        self.synced_offset = thread.synced_offset
        self.cut_back = thread.cut_back
        self.note_synced = thread.note_synced
        self.mean_s = thread.mean_s
        # Stores are opened in a thread; loops are watched from their own.
        schedule_from_thread(self._listen)

    def _listen(self) -> None:
        self._watcher.add_reader(self._event, self._heard)

    def request(self, file: MappedFile, offset: int, count: int) -> bool:
        """Have a file synced up to a log offset, for so many messages more; False: ask somebody
        else."""
        if file.descriptor < 0 or not self._thread.request(file.descriptor, offset, count):
            return False
        self._file = file
        return True

    def sync_now(self, file: MappedFile) -> None:
        """Sync a file and wait. Raises OSError, and after a failure always."""
        if file.descriptor < 0:
            file.sync()
        else:
            self._thread.sync_now(file.descriptor)

    def stop(self) -> None:
        self._thread.stop()
        try:
            self._schedule_from_thread(self._close)
        except RuntimeError:  # the loop is gone
            os.close(self._event)

    def _close(self) -> None:
        self._watcher.remove_reader(self._event)
        os.close(self._event)

    def _heard(self) -> None:
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return
        self._on_outcome()
