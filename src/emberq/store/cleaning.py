"""The cleaner: one thread that looks after the disk's space and deletes what is too old."""

import logging
import threading
import time
from collections.abc import Callable

from emberq.store.commit_log import CommitLog
from emberq.store.config import StoreConfig
from emberq.store.disk import Disk
from emberq.store.disk_space import DiskSpace
from emberq.store.queue_table import QueueTable
from emberq.store.retention import IndexFiles, Retention, StoreState

log = logging.getLogger(__name__)

# Official: a broker that has just started cleans nothing yet, but looks at its disk.
FIRST_CLEANING_AFTER_S = 60.0
SPACE_CHECK_INTERVAL_S = 10.0


class Cleaner:
    """Never works while the loop waits for it; stopping waits for the file at hand only."""

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        commit_log: CommitLog,
        queues: QueueTable,
        index: IndexFiles | None,
        state: StoreState,
        space: DiskSpace,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._interval_s = config.clean_resource_interval / 1000
        self._space = space
        self._stopped = threading.Event()
        self._turn = threading.Lock()  # the thread's and commands' use of retention
        self._thread: threading.Thread | None = None
        self._retention = Retention(
            config,
            disk,
            commit_log,
            queues,
            index,
            state,
            now_ms=now_ms,
            usage=space.check,
            pause=lambda milliseconds: self._stopped.wait(milliseconds / 1000),
        )

    def follow(self, config: StoreConfig) -> None:
        self._interval_s = config.clean_resource_interval / 1000
        self._retention.follow(config)

    def start(self) -> None:
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run, name="emberq-clean", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._turn:
            """A command that was at work has ended."""

    def delete_expired(self) -> int:
        """Delete expired segments whatever the hour; returns how many. Raises OSError."""
        with self._turn:
            self._retention.arm()
            return 0 if self._stopped.is_set() else self._retention.run()

    def _run(self) -> None:
        next_check = time.monotonic()
        next_cleaning = next_check + min(FIRST_CLEANING_AFTER_S, 6 * self._interval_s)
        while True:
            now = time.monotonic()
            if now >= next_check:
                next_check = now + SPACE_CHECK_INTERVAL_S
                self._space.check()
            if now >= next_cleaning:
                next_cleaning = now + self._interval_s
                self._clean()
            due = min(next_check, next_cleaning)
            if self._stopped.wait(max(0.0, due - time.monotonic())):
                return

    def _clean(self) -> None:
        try:
            with self._turn:
                self._retention.run()
        except OSError as error:
            log.warning("cleaning_failed reason=%s", error)
        except Exception:
            log.exception("cleaning_failed")  # the next round may go better
