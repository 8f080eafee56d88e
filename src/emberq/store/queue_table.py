"""All consume queues of a store, by topic and queue id."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from emberq.errors import RecordError
from emberq.record.layout import TOPIC_SIZE_MAX
from emberq.store.consume_queue import ConsumeQueue
from emberq.store.queue_files import QueueFiles


class QueueTable:
    """The loop adds queues, other threads remove them; any thread may look."""

    def __init__(self, folder: Path, files: QueueFiles) -> None:
        self._folder = folder
        self._files = files
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._counts: Counter[str] = Counter()  # queues per topic
        self._lock = Lock()  # guards changes of both

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def get_or_add(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Raises RecordError if no folder can have such a name."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            _refuse_unsafe(topic, queue_id)
            queue = self._add(topic, queue_id, self._folder / topic)
        return queue

    def _add(self, topic: str, queue_id: int, topic_folder: Path) -> ConsumeQueue:
        queue = ConsumeQueue(topic, queue_id, topic_folder / str(queue_id), self._files)
        with self._lock:
            self._queues[topic, queue_id] = queue
            self._counts[topic] += 1
        return queue

    def load(self) -> None:
        """Know every queue that has a folder; recovery finds out what is in it."""
        disk = self._files.disk
        for topic in disk.list(self._folder):
            topic_folder = self._folder / topic
            for name in disk.list(topic_folder):
                if name.isdecimal() and name == str(int(name)):
                    self._add(topic, int(name), topic_folder)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        return [queue for queue in self if queue.topic == topic]

    def topics(self) -> set[str]:
        return {queue.topic for queue in self}

    def has_topic(self, topic: str) -> bool:
        return self._counts[topic] > 0

    def detach(self, queue: ConsumeQueue) -> None:
        """Forget a queue: it is never written again, and its name is free for a new one."""
        key = (queue.topic, queue.queue_id)
        with self._lock:
            queue.is_removed = True
            if self._queues.get(key) is queue:
                del self._queues[key]
                self._counts[queue.topic] -= 1

    def remove(self, queue: ConsumeQueue) -> None:
        self.detach(queue)
        queue.remove_files()


def _refuse_unsafe(topic: str, queue_id: int) -> None:
    """The topic names a folder: one flipped bit turns a dot into a slash."""
    is_safe = topic not in ("", ".", "..") and not any(character in topic for character in "/\\\0")
    if not is_safe or queue_id < 0 or len(topic.encode("utf-8", "replace")) > TOPIC_SIZE_MAX:
        raise RecordError(f"no queue can be called {topic[:64]!r} {queue_id}")
