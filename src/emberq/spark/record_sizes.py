"""About how large messages are, so that ranges are cut by bytes without reading them."""

from collections import Counter
from collections.abc import Collection

from emberq.model.queue import MessageQueue
from emberq.spark.places import Place
from emberq.spark.planning import QueueSlice

# So many queues of a topic at a broker are asked, whatever they hold.
ASKED_QUEUES = 8
# Of the others only those that seem to hold so much: reading it takes a thousand questions' time.
ASKED_BYTES = 16 * 1024 * 1024

# So few rows are no more than a task reads, however large brokers let them be: 256 MiB.
FEW_ROWS = 64

Topic = tuple[str, str]  # at a broker


class RecordSizes:
    """Small ranges are taken to be like others of their topic: a thousand queues with a little
    each, as in every batch of a stream, cost no thousand questions. Those of ranges that are known
    before are asked together, when the first answer is needed.

    The same ranges have the same sizes when they are asked for again, whatever has come behind
    them: tasks are cut by it, and ids of the sink go by tasks.
    """

    def __init__(self, place: Place, slices: Collection[QueueSlice] = ()) -> None:
        self._place = place
        self._foreseen = slices
        self._known: dict[MessageQueue, float] = {}
        self._alike: dict[Topic, list[float]] = {}  # those asked
        self._few: set[Topic] = set()  # of which one stands for all

    def __call__(self, each: QueueSlice) -> float:
        if self._foreseen:
            foreseen, self._foreseen = self._foreseen, ()
            self._ask_ahead(foreseen)
        queue = each.queue
        size = self._known.get(queue)
        if size is not None:
            return size
        topic = _topic_of(each)
        alike = self._alike.get(topic, [])
        if len(alike) >= self._asked_max(topic):
            size = sum(alike) / len(alike)
            if size * each.count < ASKED_BYTES:
                return size
        [size] = self._place.record_sizes([each])
        self._learn(each, size)
        return size

    def _ask_ahead(self, slices: Collection[QueueSlice]) -> None:
        """Of each topic at a broker the queues that would be asked first."""
        rows: Counter[Topic] = Counter()
        for each in slices:
            rows[_topic_of(each)] += each.count
        self._few = {topic for topic, count in rows.items() if count <= FEW_ROWS}
        counts: Counter[Topic] = Counter()
        first: list[QueueSlice] = []
        for each in slices:
            topic = _topic_of(each)
            counts[topic] += 1
            if counts[topic] <= self._asked_max(topic):
                first.append(each)
        for each, size in zip(first, self._place.record_sizes(first), strict=True):
            self._learn(each, size)

    def _learn(self, each: QueueSlice, size: float) -> None:
        self._known[each.queue] = size
        topic = _topic_of(each)
        alike = self._alike.setdefault(topic, [])
        if len(alike) < self._asked_max(topic):
            alike.append(size)

    def _asked_max(self, topic: Topic) -> int:
        return 1 if topic in self._few else ASKED_QUEUES


def _topic_of(each: QueueSlice) -> Topic:
    return each.queue.topic, each.queue.broker_name
