"""Rows of a frame as messages, and which queue each goes to. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emberq.client.core.message import Message
from emberq.client.core.queue_choice import queue_by_key
from emberq.errors import MessageRefused
from emberq.model.queue import MessageQueue
from emberq.spark.row_rules import RowRules

ID_PROPERTY = "SPARK_ID"
# Which write of which batch a half message belongs to.
WRITE_PROPERTY = "SPARK_WRITE"
# Names of the column whose bytes go as they are, whether they are text or not.
BODIES = ("body", "value")
# Rows that are free to go anywhere go to one queue in pieces of this size.
FREE_ROWS_TOGETHER = 1_000


class RowMessages:
    """Makes the messages of one task. The id of a row is what its column `id` says, else the same
    whenever the task is repeated with the same rows in the same order."""

    def __init__(
        self, topic: str | None, id_prefix: str | None, rules: RowRules | None = None
    ) -> None:
        self.topic = topic
        self.id_prefix = id_prefix
        self.rules = rules or RowRules()
        self.count = 0

    def messages(self, columns: Mapping[str, Sequence[Any]], count: int) -> Iterator[Message]:
        """Raises MessageRefused for a row that no broker would take."""
        is_id_needed = self.rules.has_own_ids and "id" in columns
        nothing: Sequence[Any] = (None,) * count
        bodies = columns.get("body", columns.get("value", nothing))
        rows = zip(
            bodies,
            *(
                columns.get(name, nothing)
                for name in ("topic", "tags", "keys", "properties", "shardingKey", "flag", "id")
            ),
            columns.get("deliverAt", columns.get("delayLevel", nothing)),
            strict=True,
        )
        for body, topic, tags, keys, properties, key, flag, own_id, delay in rows:
            if is_id_needed and not own_id:
                raise MessageRefused(
                    f"row {self.count} has no id: with delivery=idempotent a frame that has the "
                    "column id has a value there in every row"
                )
            message = Message(
                self._named(topic),
                self._body(body),
                tags=tags,
                keys=keys or (),
                properties=self._properties(properties, own_id),
                delay=delay,
                ordering_key=key,
                flag=flag or 0,
            )
            self.rules.check(message, self.count)
            yield message
            self.count += 1

    def _named(self, topic: str | None) -> str:
        name = topic or self.topic
        if name is None:
            raise MessageRefused(f"row {self.count} has no topic")
        return name

    def _body(self, body: bytes | str | None) -> bytes:
        if body is None:
            raise MessageRefused(f"row {self.count} has no body")
        return body.encode() if isinstance(body, str) else body

    def _properties(
        self, given: Sequence[tuple[str, str]] | None, own_id: str | None
    ) -> dict[str, str]:
        properties = {name: value for name, value in given or () if value}
        if self.id_prefix is not None:
            properties[ID_PROPERTY] = own_id or f"{self.id_prefix}-{self.count}"
        return properties


def placed(
    messages: Sequence[Message],
    queue_ids: Sequence[int | None],
    queues: Mapping[str, Sequence[MessageQueue]],
    first_queue: int,
    *,
    by_id: bool = False,
    first_row: int = 0,
) -> dict[MessageQueue, list[Message]]:
    """Messages by queue, in their order: where the row says, by its key, or in large pieces; with
    `by_id` the latter by their ids, so that a row comes to the same broker wherever it stands.

    Raises:
        MessageRefused: a row names a queue that its topic does not have.
    """
    by_queue: dict[MessageQueue, list[Message]] = {}
    free = dict.fromkeys(queues, 0)
    for row, (message, queue_id) in enumerate(zip(messages, queue_ids, strict=True), first_row):
        own = queues[message.topic]
        if queue_id is not None:
            queue = numbered(own, queue_id, message.topic, row)
        elif message.ordering_key is not None:
            queue = queue_by_key(own, message.ordering_key)
        elif by_id:
            queue = queue_by_key(own, message.properties[ID_PROPERTY])
        else:
            count = free[message.topic]
            queue = own[(first_queue + count // FREE_ROWS_TOGETHER) % len(own)]
            free[message.topic] = count + 1
        by_queue.setdefault(queue, []).append(message)
    return by_queue


def numbered(queues: Sequence[MessageQueue], queue_id: int, topic: str, row: int) -> MessageQueue:
    """What a row names: on the first broker by name that has it. Raises MessageRefused."""
    for queue in queues:
        if queue.queue_id == queue_id:
            return queue
    raise MessageRefused(f"row {row}: {topic} has no queue {queue_id} that can be written")
