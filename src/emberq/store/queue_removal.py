"""Removing whole queues: of deleted topics, of unused ones, and those of which nothing is left."""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TypeVar

from emberq.errors import StoreError
from emberq.store.commit_log import CommitLog
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.disk import Disk
from emberq.store.queue_table import QueueTable
from emberq.store.tag_codes import SCHEDULE_TOPIC
from emberq.store.turn_dispatch import Schedule

log = logging.getLogger(__name__)

# How long a thread waits for the loop to look at its queues.
LOOP_ANSWER_TIMEOUT_S = 2.0
# Expired queues that are removed before the flusher gets its turn.
EXPIRED_PER_STEP = 50

_Result = TypeVar("_Result")

# Topics that no topic table need name.
_NEVER_UNUSED = frozenset({SCHEDULE_TOPIC, "RMQ_SYS_TRANS_OP_HALF_TOPIC"})
_LIGHT_QUEUE_PREFIX = "%LMQ%"


class QueueRemoval:
    """For threads other than the loop's: they wait for the disk, and some for the loop.

    A queue leaves the table and the disk while the flusher stands still: the next message begins
    a new one at offset 0, whose files nobody takes for those of the old one. What is still being
    dispatched to the old one stays in memory and is never written.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        queues: QueueTable,
        disk: Disk,
        no_side_work: Callable[[], AbstractContextManager[object]],
        schedule_from_thread: Schedule | None,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._disk = disk
        self._no_side_work = no_side_work
        self._schedule_from_thread = schedule_from_thread

    def delete_topics(self, names: Iterable[str]) -> int:
        """Forget all queues of topics; returns how many topics had any. Raises OSError."""
        deleted = 0
        for name in names:
            queues = self._queues.of_topic(name)
            for queue in queues:
                with self._no_side_work():
                    self._queues.detach(queue)
                    queue.remove_files()
            if queues:
                deleted += 1
                self._sync_folder_of(queues[0])
                log.info("topic_deleted topic=%s queues=%d", name, len(queues))
        return deleted

    def clean_unused(self, kept: set[str]) -> int:
        """Delete topics that nobody knows any more; returns how many. Raises OSError."""
        unused = [
            topic
            for topic in self._queues.topics()
            if topic not in kept
            and topic not in _NEVER_UNUSED
            and not topic.startswith(_LIGHT_QUEUE_PREFIX)
        ]
        return self.delete_topics(unused)

    def clean_expired(self) -> int:
        """Remove queues of which the log has no message any more; returns how many.

        Raises:
            OSError
            StoreError: the loop does not answer.
        """
        candidates = [queue for queue in self._queues if self._is_expired(queue)]
        removed = 0
        for at in range(0, len(candidates), EXPIRED_PER_STEP):
            some = candidates[at : at + EXPIRED_PER_STEP]
            with self._no_side_work():
                # On the loop's thread no message can come in between.
                expired = self._on_loop(partial(self._detach_expired, some))
                for queue in expired:
                    queue.remove_files()
            for queue in expired:
                self._sync_folder_of(queue)
                log.info("queue_expired topic=%s queue=%d", queue.topic, queue.queue_id)
            removed += len(expired)
        return removed

    def _detach_expired(self, queues: list[ConsumeQueue]) -> list[ConsumeQueue]:
        expired = [queue for queue in queues if not queue.is_removed and self._is_expired(queue)]
        for queue in expired:
            self._queues.detach(queue)
        return expired

    def _is_expired(self, queue: ConsumeQueue) -> bool:
        return (
            queue.topic != SCHEDULE_TOPIC
            and 0 <= queue.log_end_offset <= self._log.min_offset
            and queue.next_offset == queue.end_offset
        )

    def _sync_folder_of(self, queue: ConsumeQueue) -> None:
        """Or power loss would bring its files back."""
        for folder in (queue.folder.parent, queue.folder.parent.parent):
            with suppress(FileNotFoundError):  # it was the topic's last queue
                self._disk.sync_folder(folder)

    def _on_loop(self, call: Callable[[], _Result]) -> _Result:
        if self._schedule_from_thread is None:
            return call()
        outcome: Future[_Result] = Future()

        def run() -> None:
            if not outcome.set_running_or_notify_cancel():
                return  # nobody waits any more
            try:
                outcome.set_result(call())
            except Exception as error:
                outcome.set_exception(error)

        self._schedule_from_thread(run)
        try:
            return outcome.result(LOOP_ANSWER_TIMEOUT_S)
        except TimeoutError as error:
            if outcome.cancel():
                raise StoreError("the store's loop does not answer") from error
            return outcome.result()  # it has just begun
