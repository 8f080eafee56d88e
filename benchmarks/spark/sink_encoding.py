"""Rows into what the sink sends: by columns, as it does, and one by one."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from emberq.client.core.message import Message
from emberq.client.core.outgoing import MESSAGE_SIZE_MAX_BYTES, split_batch
from emberq.record.message_id import UniqueKeyGenerator
from emberq.spark.encoded_rows import RowEncoder, hex_keys
from emberq.spark.outgoing_rows import RowMessages

TOPIC, ID_PREFIX = "bench-sink", "query-1-0"
_IDS_TOGETHER = 1_000

_keys = UniqueKeyGenerator(bytes(4), 1, 1, now_ms=lambda: time.time_ns() // 1_000_000)


def encode_columns(batch: Any) -> None:
    def keys(topic: str, ids: Any, count: int) -> Any:
        return hex_keys(*_keys.take_numbers(count))

    columns = {name: batch.column(name) for name in batch.schema.names}
    encoder = RowEncoder(RowMessages(TOPIC, ID_PREFIX), keys)
    assert encoder.encode(columns, batch.num_rows)


def encode_messages(messages: Iterable[Message]) -> None:
    for piece in split_batch(zip(messages, _ids(), strict=False), MESSAGE_SIZE_MAX_BYTES):
        b"".join(element for element, _ in piece)


def _ids() -> Iterator[str]:
    while True:
        yield from _keys.take(_IDS_TOGETHER)
