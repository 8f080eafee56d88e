"""Administration at hand, blocking: same names and arguments as in `emberq.aio`."""

from datetime import datetime

from emberq.client.aio import at_hand as aio_at_hand
from emberq.client.aio.at_hand import QUERY_COUNT
from emberq.client.blocking.loop_thread import LoopThread
from emberq.client.core.received import ReceivedMessage
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import DEFAULT_TOPIC


class AtHand:
    """Of producers and consumers."""

    aio: aio_at_hand.AtHand
    _thread: LoopThread

    def create_topic(
        self, topic: str, *, queues: int = 8, template_topic: str = DEFAULT_TOPIC
    ) -> None:
        """Create a topic on every broker that has the template, or change its number of queues."""
        self._thread.run(self.aio.create_topic(topic, queues=queues, template_topic=template_topic))

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """Every queue that can be read. Raises TopicNotFound, NoNameServer."""
        return self._thread.run(self.aio.queues_of(topic))

    def min_offset(self, queue: MessageQueue) -> int:
        return self._thread.run(self.aio.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        return self._thread.run(self.aio.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, moment: datetime) -> int:
        """The first message stored at or after a moment."""
        return self._thread.run(self.aio.offset_by_time(queue, moment))

    def earliest_store_time(self, queue: MessageQueue) -> datetime | None:
        """When the oldest message of a queue was stored; None: it is empty."""
        return self._thread.run(self.aio.earliest_store_time(queue))

    def view_message(self, offset_message_id: str) -> ReceivedMessage:
        """The message with a broker's id. Raises MessageNotFound."""
        return self._thread.run(self.aio.view_message(offset_message_id))

    def query_messages(
        self,
        topic: str,
        key: str,
        *,
        count: int = QUERY_COUNT,
        begin: datetime | None = None,
        end: datetime | None = None,
        is_complete: bool = False,
        broker_name: str | None = None,
    ) -> list[ReceivedMessage]:
        """Messages with a key, or with a producer's id, from all brokers or one; oldest first."""
        return self._thread.run(
            self.aio.query_messages(
                topic,
                key,
                count=count,
                begin=begin,
                end=end,
                is_complete=is_complete,
                broker_name=broker_name,
            )
        )
