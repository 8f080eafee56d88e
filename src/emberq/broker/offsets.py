"""Where consumer groups stand in their queues (consumerOffset.json). No I/O, no clock."""

import logging
from collections.abc import Callable

from emberq.model.data_version import DataVersion
from emberq.protocol.bodies.offsets import ConsumerOffsetTable

log = logging.getLogger(__name__)

# Between topic and group in keys of the file.
SEPARATOR = "@"
# Queues that one group may have offsets of in one topic: ids come from the network.
QUEUES_PER_TOPIC_MAX = 65_536
# Official brokers make a new data version after so many commits (consumerOffsetUpdateVersionStep).
COMMITS_PER_VERSION = 500

Key = tuple[str, str]  # topic and group
QueueOffsets = dict[int, int]


class ConsumerOffsets:
    """Committed offsets, the offsets of the last pulls, and resets that wait for the next pull."""

    def __init__(
        self, now_ms: Callable[[], int], stored: ConsumerOffsetTable | None = None
    ) -> None:
        self._now_ms = now_ms
        self._committed: dict[Key, QueueOffsets] = {}
        self._pulled: dict[Key, QueueOffsets] = {}
        self._resets: dict[Key, QueueOffsets] = {}
        self._topics: dict[str, set[str]] = {}  # by group
        self._listeners: list[Callable[[], None]] = []
        self._reset_listeners: list[Callable[[str, int], None]] = []
        self._removal_listeners: list[tuple[Callable[[str], None], Callable[[str], None]]] = []
        self._commits_until_version = COMMITS_PER_VERSION
        self.version = DataVersion(timestamp_ms=now_ms())
        if stored is not None:
            self.load(stored)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener()` after changes; often, so it must be cheap."""
        self._listeners.append(listener)

    def on_reset(self, listener: Callable[[str, int], None]) -> None:
        """Call `listener(topic, queue_id)` when some group is moved there."""
        self._reset_listeners.append(listener)

    def on_removal(self, of_topic: Callable[[str], None], of_group: Callable[[str], None]) -> None:
        """Call them with the name of a topic or a group that is gone."""
        self._removal_listeners.append((of_topic, of_group))

    # Committing and asking

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Overwrite, also with less: a group may go back."""
        offsets = self._committed.get((topic, group))
        if offsets is None:
            offsets = self._new(topic, group)
        before = offsets.get(queue_id)
        if before == offset:
            return
        if before is None:
            if len(offsets) >= QUEUES_PER_TOPIC_MAX:
                log.warning(
                    "commit_ignored topic=%s group=%s queues=%d", topic, group, len(offsets)
                )
                return
        elif offset < before:
            log.warning(
                "offset_went_back topic=%s group=%s queue=%d offset=%d before=%d",
                topic,
                group,
                queue_id,
                offset,
                before,
            )
        offsets[queue_id] = offset
        self._commits_until_version -= 1
        if self._commits_until_version == 0:
            self._new_version()
        for listener in self._listeners:
            listener()

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset, or the one a reset will set; -1: there is none."""
        key = (topic, group)
        if self._resets:
            reset = self._resets.get(key, {}).get(queue_id)
            if reset is not None:
                return reset
        offsets = self._committed.get(key)
        return -1 if offsets is None else offsets.get(queue_id, -1)

    def of(self, group: str, topic: str) -> QueueOffsets:
        return dict(self._committed.get((topic, group), {}))

    def topics_of(self, group: str) -> set[str]:
        return set(self._topics.get(group, ()))

    def groups_of(self, topic: str) -> set[str]:
        return {group for name, group in self._committed if name == topic}

    def note_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember where a group's next pull will read."""
        offsets = self._pulled.get((topic, group))
        if offsets is None:
            offsets = self._pulled[topic, group] = {}
        if queue_id in offsets or len(offsets) < QUEUES_PER_TOPIC_MAX:
            offsets[queue_id] = offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Where the next pull will read; the committed offset if there was none, or -1."""
        offsets = self._pulled.get((topic, group))
        found = None if offsets is None else offsets.get(queue_id)
        return self.query(group, topic, queue_id) if found is None else found

    def next_pulls(self) -> list[tuple[str, str, int, int]]:
        """Group, topic, queue and offset of every queue that was pulled."""
        return [
            (group, topic, queue_id, offset)
            for (topic, group), offsets in self._pulled.items()
            for queue_id, offset in offsets.items()
        ]

    # Resets: the next pull takes them, and until then commits do not count

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        if queue_id < 0 or offset < 0:
            return
        self._resets.setdefault((topic, group), {})[queue_id] = offset
        self.commit(group, topic, queue_id, offset)  # counts already for a group that is offline
        for listener in self._reset_listeners:
            listener(topic, queue_id)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self._resets) and queue_id in self._resets.get((topic, group), {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        if not self._resets:
            return None
        resets = self._resets.get((topic, group))
        offset = None if resets is None else resets.pop(queue_id, None)
        if resets is not None and not resets:
            del self._resets[topic, group]
        return offset

    # Whole topics and groups

    def remove_topic(self, topic: str) -> None:
        self._remove([key for key in self._keys() if key[0] == topic])
        for of_topic, _ in self._removal_listeners:
            of_topic(topic)

    def remove_group(self, group: str) -> None:
        self._remove([key for key in self._keys() if key[1] == group])
        for _, of_group in self._removal_listeners:
            of_group(group)

    def clone(self, source: str, target: str, topic: str) -> None:
        """Let a group stand in a topic where another stands."""
        offsets = self._committed.get((topic, source))
        if offsets is not None:
            copied = self._new(topic, target)
            copied.clear()
            copied.update(offsets)
            self._changed()

    # The file

    def table(self) -> ConsumerOffsetTable:
        """A copy for the file and for slaves."""
        return ConsumerOffsetTable(
            data_version=self.version,
            topics_by_group={group: sorted(topics) for group, topics in self._topics.items()},
            offsets=_by_text(self._committed),
            pull_offsets=_by_text(self._pulled),
        )

    def load(self, table: ConsumerOffsetTable) -> None:
        """Take over a stored table; keys that are none are left out."""
        self.version = table.data_version or self.version
        for key, offsets in table.offsets.items():
            topic, separator, group = key.partition(SEPARATOR)
            if separator:
                self._new(topic, group).update(offsets)
        for key, offsets in (table.pull_offsets or {}).items():
            topic, separator, group = key.partition(SEPARATOR)
            if separator:
                self._pulled[topic, group] = dict(offsets)

    def _new(self, topic: str, group: str) -> QueueOffsets:
        self._topics.setdefault(group, set()).add(topic)
        return self._committed.setdefault((topic, group), {})

    def _keys(self) -> set[Key]:
        return self._committed.keys() | self._pulled.keys() | self._resets.keys()

    def _remove(self, keys: list[Key]) -> None:
        for key in keys:
            for table in (self._committed, self._pulled, self._resets):
                table.pop(key, None)
            topic, group = key
            topics = self._topics.get(group)
            if topics is not None:
                topics.discard(topic)
                if not topics:
                    del self._topics[group]
        if keys:
            self._changed()

    def _changed(self) -> None:
        self._new_version()
        for listener in self._listeners:
            listener()

    def _new_version(self) -> None:
        self._commits_until_version = COMMITS_PER_VERSION
        self.version = self.version.next(self._now_ms())


def _by_text(table: dict[Key, QueueOffsets]) -> dict[str, QueueOffsets]:
    return {
        f"{topic}{SEPARATOR}{group}": dict(offsets) for (topic, group), offsets in table.items()
    }
