"""Rows of a frame as messages, and which queue each goes to. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from emberq.client.core.message import Message
from emberq.client.core.queue_choice import queue_by_key
from emberq.errors import MessageRefused
from emberq.model.queue import MessageQueue

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
        self, topic: str | None, id_prefix: str | None, extra: Mapping[str, str] | None = None
    ) -> None:
        """`extra` are properties of every message."""
        self.topic = topic
        self.id_prefix = id_prefix
        self._extra = dict(extra or {})
        self.count = 0

    def messages(self, columns: Mapping[str, Sequence[Any]], count: int) -> Iterator[Message]:
        """Raises MessageRefused for a row without topic or body."""
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
            yield Message(
                self._named(topic),
                self._body(body),
                tags=tags,
                keys=keys or (),
                properties=self._properties(properties, own_id),
                delay=delay,
                ordering_key=key,
                flag=flag or 0,
            )
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
        properties = {name: value for name, value in given or () if value} | self._extra
        if self.id_prefix is not None:
            properties[ID_PROPERTY] = own_id or f"{self.id_prefix}-{self.count}"
        return properties


def rows_by_topic(batches: Iterable[Any], default: str | None) -> "Counter[str]":
    """How many rows of Arrow batches go to each topic, of which none is sent."""
    rows: Counter[str] = Counter()
    first_row = 0
    for batch in batches:
        topics: Sequence[str | None] = (None,) * batch.num_rows
        if "topic" in batch.schema.names:
            topics = values_of("topic", batch.column("topic"), first_row)
        rows.update(topic or default or "" for topic in topics)
        first_row += batch.num_rows
    return rows


def without_columns(batches: Iterable[Any], left_out: Sequence[str]) -> Iterator[Any]:
    """Arrow batches without columns that have no value.

    Raises:
        MessageRefused: one of them has a value.
    """
    first_row = 0
    for batch in batches:
        for name in left_out:
            column = batch.column(name)
            if column.null_count < len(column):
                row = first_row + column.is_valid().index(True).as_py()
                raise MessageRefused(
                    f"row {row} has a value in the column {name}, which is read only: leave it out"
                )
        yield batch.drop_columns(list(left_out))
        first_row += batch.num_rows


def values_of(name: str, column: Any, first_row: int) -> list[Any]:
    """Values of a column of Arrow; bodies as bytes, so that each goes as it is.

    Raises:
        MessageRefused: a text is not UTF-8, which Spark promises of none of its strings.
    """
    if name in BODIES:
        column = column.cast("binary")
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        row = next(row for row, value in enumerate(column) if not _is_readable(value))
        raise MessageRefused(
            f"row {first_row + row} has no UTF-8 text in its column {name}"
        ) from None
    return values


def _is_readable(value: Any) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    return True


def placed(
    messages: Sequence[Message],
    queue_ids: Sequence[int | None],
    queues: Mapping[str, Sequence[MessageQueue]],
    first_queue: int,
    *,
    by_id: bool = False,
) -> dict[MessageQueue, list[Message]]:
    """Messages by queue, in their order: where the row says, by its key, or in large pieces; with
    `by_id` the latter by their ids, so that a row comes to the same broker wherever it stands.

    Raises:
        MessageRefused: a row names a queue that its topic does not have.
    """
    by_queue: dict[MessageQueue, list[Message]] = {}
    free = dict.fromkeys(queues, 0)
    for message, queue_id in zip(messages, queue_ids, strict=True):
        own = queues[message.topic]
        if queue_id is not None:
            queue = numbered(own, queue_id, message.topic)
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


def numbered(queues: Sequence[MessageQueue], queue_id: int, topic: str) -> MessageQueue:
    """The queue with a number; on the first broker by name that has it. Raises MessageRefused."""
    for queue in queues:
        if queue.queue_id == queue_id:
            return queue
    raise MessageRefused(f"{topic} has no queue {queue_id} that can be written")
