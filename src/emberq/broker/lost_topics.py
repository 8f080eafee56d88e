"""Topics that a crash took from the table while their messages were already in the log.

A send that makes a topic does not wait for `topics.json`. When the broker is killed before the
file is written, the log has messages of a topic that nobody knows: they could not be consumed.
"""

import logging
from collections import defaultdict
from typing import Protocol

from emberq.broker.topics import Topics, topic_name_trouble
from emberq.model.system_topics import is_dead_letter_topic, is_retry_topic

log = logging.getLogger(__name__)


class StoredQueues(Protocol):
    """What is asked of the store after its recovery."""

    def queue_ids(self) -> list[tuple[str, int]]: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    def stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int: ...


def restore_lost_topics(
    topics: Topics, store: StoredQueues, *, saved_at_ms: int, queue_count: int
) -> list[str]:
    """Make them again; returns their names. `saved_at_ms` is the last change that the file had.

    A topic whose last message is older than that was deleted: recovery finds its messages, but
    nobody wants them. How many queues a topic had is lost; `queue_count` is what a template may
    have given it at most, and more queues than before hurt nobody.
    """
    unknown: defaultdict[str, list[int]] = defaultdict(list)
    for name, queue_id in store.queue_ids():
        if topics.get(name) is None and topic_name_trouble(name) is None:
            unknown[name].append(queue_id)
    restored = []
    for name, queue_ids in sorted(unknown.items()):
        if _last_stored_at_ms(store, name, queue_ids) <= saved_at_ms:
            continue
        is_ours = is_retry_topic(name) or is_dead_letter_topic(name)
        count = max(1 if is_ours else queue_count, max(queue_ids) + 1)
        topics.create_if_absent(name, count)
        restored.append(name)
        log.warning("topic_restored topic=%s queues=%d", name, count)
    return restored


def _last_stored_at_ms(store: StoredQueues, name: str, queue_ids: list[int]) -> int:
    return max(
        store.stored_at_ms(name, queue_id, store.max_offset(name, queue_id) - 1)
        for queue_id in queue_ids
    )
