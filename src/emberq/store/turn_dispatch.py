"""Dispatch of what one turn of the loop appended, once at its end."""

from collections.abc import Callable

from emberq.store.admission import Admission
from emberq.store.commit_log import CommitLog
from emberq.store.dispatch import Dispatched, DispatchedBatch, Dispatcher
from emberq.store.key_index import UNWRITTEN_MAX_BYTES, KeyIndex

# Half of what the index takes before it refuses: a turn's messages must still fit.
INDEX_BUSY_BYTES = UNWRITTEN_MAX_BYTES // 2

Schedule = Callable[[Callable[[], None]], object]


class TurnDispatch:
    """Collects records as they are appended. Without a schedule they are dispatched at once."""

    def __init__(
        self,
        commit_log: CommitLog,
        dispatcher: Dispatcher,
        index: KeyIndex | None,
        admission: Admission,
        schedule: Schedule | None,
    ) -> None:
        self._log = commit_log
        self._dispatcher = dispatcher
        self._index = index
        self._admission = admission
        self._schedule = schedule
        self._log_listeners: list[Callable[[int], None]] = []
        self.records: list[Dispatched] = []
        self.is_scheduled = False
        self._has_taken_batch = False

    def schedule(self) -> None:
        """Have `dispatch_now` called when the turn ends."""
        if self._schedule is None:
            self.dispatch_now()
        else:
            self.is_scheduled = True
            self._schedule(self.dispatch_now)

    def dispatch_now(self) -> None:
        """Bring queues and index up to the end of the log, and tell listeners."""
        self.is_scheduled = False
        if not self.records and not self._has_taken_batch:
            return
        self._take_records()
        self._has_taken_batch = False
        self._dispatcher.tell()
        if self._index is not None and self._index.unwritten_bytes > INDEX_BUSY_BYTES:
            # The flusher cannot keep up: producers must wait, as for a busy page cache.
            self._admission.is_index_busy = True
        self.tell_log_end()

    def take_batch(self, batch: DispatchedBatch) -> None:
        """Dispatch a batch: it is worth a call of its own. Listeners hear when the turn ends."""
        self._take_records()
        self._dispatcher.take_batch(batch)
        self._has_taken_batch = True
        if not self.is_scheduled:
            self.schedule()

    def _take_records(self) -> None:
        if self.records:
            records, self.records = self.records, []
            self._dispatcher.take(records)

    def on_log_grown(self, listener: Callable[[int], None]) -> None:
        """Call `listener(end)` when the log has grown, once per turn."""
        self._log_listeners.append(listener)

    def tell_log_end(self) -> None:
        for listener in self._log_listeners:
            listener(self._log.end)
