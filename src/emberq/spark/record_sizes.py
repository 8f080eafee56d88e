"""About how large messages are, so that ranges are cut by bytes without reading them."""

from emberq.model.queue import MessageQueue
from emberq.spark.places import Place
from emberq.spark.planning import QueueSlice

# So many queues of a topic at a broker are asked, whatever they hold.
ASKED_QUEUES = 8
# Of the others only those that seem to hold so much: reading it takes a thousand questions' time.
ASKED_BYTES = 16 * 1024 * 1024


class RecordSizes:
    """Small ranges are taken to be like others of their topic: a thousand queues with a little
    each, as in every batch of a stream, cost no thousand questions.

    The same ranges have the same sizes when they are asked for again, whatever has come behind
    them: tasks are cut by it, and ids of the sink go by tasks.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: dict[MessageQueue, float] = {}
        self._alike: dict[tuple[str, str], list[float]] = {}  # those asked, by topic and broker

    def __call__(self, each: QueueSlice) -> float:
        queue = each.queue
        size = self._known.get(queue)
        if size is not None:
            return size
        alike = self._alike.setdefault((queue.topic, queue.broker_name), [])
        if len(alike) >= ASKED_QUEUES:
            size = sum(alike) / len(alike)
            if size * each.count < ASKED_BYTES:
                return size
        size = self._known[queue] = self._place.record_size(each)
        if len(alike) < ASKED_QUEUES:
            alike.append(size)
        return size
