"""A store directory made by hand: a log of small segments and the queues of one topic."""

from collections.abc import Sequence
from pathlib import Path

from emberq.record.encode import encode_record
from emberq.record.properties import encode_properties
from emberq.record.string_hash import tag_code
from emberq.store.consume_queue import ENTRY

TOPIC = "orders"


def write_store(
    root: Path,
    bodies: Sequence[bytes],
    *,
    tags: Sequence[str] = (),
    per_segment: int = 1_000,
    first_time_ms: int = 0,
) -> list[Path]:
    """Messages of queue 0, one each millisecond, each with the next of the tags; returns the
    segments."""
    segments: list[Path] = []
    entries = content = b""
    start = at = 0
    for offset, body in enumerate(bodies):
        tag = tags[offset % len(tags)] if tags else ""
        properties = encode_properties({"TAGS": tag} if tag else {})
        record = encode_record(
            *(TOPIC, body, properties),
            queue_offset=offset,
            log_offset=at,
            stored_at_ms=first_time_ms + offset,
        )
        entries += ENTRY.pack(at, len(record), tag_code(tag))
        content += record
        at += len(record)
        if (offset + 1) % per_segment == 0 or offset + 1 == len(bodies):
            segments.append(_written(root / "commitlog" / f"{start:020}", content))
            start, content = at, b""
    _written(root / "consumequeue" / TOPIC / "0" / f"{0:020}", entries)
    return segments


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
