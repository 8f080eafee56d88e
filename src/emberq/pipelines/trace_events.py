"""Trace messages as rows: one per event and message, in columns that Spark can join."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from emberq.client.core.trace_reading import read_trace

# What the source is asked for, and what comes of it.
SOURCE_COLUMNS = "bornHost,body"
SCHEMA = (
    "kind string, messageId string, atMs bigint, `group` string, topic string, tags string, "
    "keys string, storeHost string, clientHost string, bodySize bigint, costMs bigint, "
    "isSuccess boolean, requestId string, retryTimes bigint, result string, state string, "
    "messageType string"
)
_ARROW = pa.schema(
    [
        *((name, pa.string()) for name in ("kind", "messageId")),
        ("atMs", pa.int64()),
        *((name, pa.string()) for name in ("group", "topic", "tags", "keys")),
        *((name, pa.string()) for name in ("storeHost", "clientHost")),
        *((name, pa.int64()) for name in ("bodySize", "costMs")),
        ("isSuccess", pa.bool_()),
        ("requestId", pa.string()),
        ("retryTimes", pa.int64()),
        *((name, pa.string()) for name in ("result", "state", "messageType")),
    ]
)


def event_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """For Spark's `mapInArrow`: bodies of trace messages to events."""
    for batch in batches:
        bodies, hosts = batch.column("body").to_pylist(), batch.column("bornHost").to_pylist()
        rows = [
            row for body, host in zip(bodies, hosts, strict=True) for row in event_rows(body, host)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def event_rows(body: bytes, client_host: str | None) -> Iterator[dict[str, Any]]:
    """One row per message of each event; what an event does not say is null."""
    for event in read_trace(body.decode("utf-8", "replace"), client_host):
        facts = msgspec.to_builtins(event)
        if facts.get("bodySize") is not None:
            # A batch tells its whole body: a message of it counts as an even share.
            facts["bodySize"] //= len(event.message_ids) or 1
        for message_id in event.message_ids:
            yield {
                **{name: facts.get(name) for name in _ARROW.names},
                "kind": facts["type"],
                "messageId": message_id,
                "keys": " ".join(event.keys) or None,
            }
