"""Where the half messages of a batch are, in the order in which they become visible. Pure."""

import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import sub
from typing import Any

import msgspec
from msgspec import Struct, field

from emberq.errors import RecordError
from emberq.model.queue import MessageQueue

# Half messages in one message of the ledger: 128 KiB before compression. How much of a batch is
# visible is written down after each.
PART_HALVES_MAX = 8 * 1024
_INT64 = 8


class QueueHalves(Struct):
    """Of one queue: places in the broker's log, and in its queue of half messages."""

    log_offsets: "array[int]" = field(default_factory=lambda: array("q"))
    half_offsets: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, log_offset: int, half_offset: int) -> None:
        self.log_offsets.append(log_offset)
        self.half_offsets.append(half_offset)

    def __len__(self) -> int:
        return len(self.log_offsets)


Halves = dict[MessageQueue, QueueHalves]


class Staged(Struct, frozen=True, kw_only=True):
    """What a task has staged, by writes of its own: nothing if its batch is committed already.
    `rows` are those of each topic, staged or not."""

    batch_key: str
    writes: list[str] = field(default_factory=list)
    halves: Halves = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)

    def __reduce__(self) -> tuple[Any, ...]:
        """Packed, as parts are: a driver takes results of all tasks together only up to
        `spark.driver.maxResultSize`, and plain these are 16 bytes for each row."""
        return _unpickled, (self.batch_key, self.writes, encode_part(self.halves), self.rows)

    def add(self, write: str, halves: Halves) -> None:
        """One more write, which is whole."""
        self.writes.append(write)
        for queue, own in halves.items():
            known = self.halves.setdefault(queue, QueueHalves())
            known.log_offsets += own.log_offsets
            known.half_offsets += own.half_offsets

    @property
    def count(self) -> int:
        return sum(map(len, self.halves.values()))

    def count_rows(self) -> None:
        """Have `rows` of what was staged."""
        for queue, own in self.halves.items():
            self.rows[queue.topic] += len(own)


def _unpickled(batch_key: str, writes: list[str], halves: bytes, rows: Counter[str]) -> Staged:
    return Staged(batch_key=batch_key, writes=writes, halves=decode_part(halves), rows=rows)


class _Row(Struct, array_like=True):
    broker_name: str
    topic: str
    queue_id: int
    log_offsets: bytes
    half_offsets: bytes


def parts_of(staged: Iterable[Staged]) -> Iterator[Halves]:
    """All of a batch in pieces that fit into one message each, in their order."""
    part: Halves = {}
    room = PART_HALVES_MAX
    for each in staged:
        for queue, halves in each.halves.items():
            at = 0
            while at < len(halves):
                behind = at + room
                own = part.setdefault(queue, QueueHalves())
                own.log_offsets += halves.log_offsets[at:behind]
                own.half_offsets += halves.half_offsets[at:behind]
                room -= min(room, len(halves) - at)
                at = behind
                if not room:
                    yield part
                    part, room = {}, PART_HALVES_MAX
    if part:
        yield part


def encode_part(part: Halves) -> bytes:
    rows = [
        _Row(
            queue.broker_name,
            queue.topic,
            queue.queue_id,
            _packed(halves.log_offsets),
            _packed(halves.half_offsets),
        )
        for queue, halves in part.items()
    ]
    return zlib.compress(msgspec.msgpack.encode(rows), 1)


def decode_part(body: bytes) -> Halves:
    """Raises RecordError."""
    try:
        rows = msgspec.msgpack.decode(zlib.decompress(body), type=list[_Row])
    except (zlib.error, msgspec.DecodeError) as error:
        raise RecordError(f"no list of half messages: {error}") from None
    return {
        MessageQueue(row.broker_name, row.queue_id, row.topic): QueueHalves(
            _unpacked(row.log_offsets), _unpacked(row.half_offsets)
        )
        for row in rows
    }


def _packed(offsets: "array[int]") -> bytes:
    """Differences: those of neighbours are small, and alike."""
    steps = offsets[:1]
    steps.extend(map(sub, offsets[1:], offsets))
    if sys.byteorder == "big":
        steps.byteswap()
    return steps.tobytes()


def _unpacked(content: bytes) -> "array[int]":
    if len(content) % _INT64:
        raise RecordError(f"a list of numbers of {len(content)} bytes")
    steps = array("q", content)
    if sys.byteorder == "big":
        steps.byteswap()
    return array("q", accumulate(steps))
