"""What is measured on a broker: kinds, shapes and sizes."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

TOPIC_COUNTS = (1, 100, 10_000)
BACKLOG_SIZES = (128, 1024)


class Kind(StrEnum):
    SEND = "send"
    BATCH = "batch"  # 32 messages per request
    PULL = "pull"
    PUSH = "push"


class RowShape(Struct, frozen=True, kw_only=True):
    """One row: `connections` × `in_flight` requests, for bodies of `size` bytes."""

    kind: Kind
    size: int
    connections: int = 1
    in_flight: int = 1
    topics: int = 1
    count_max: int = 0  # of a pull
    per_s: int = 0  # of the sender beside a push consumer

    @property
    def name(self) -> str:
        shape = f"{self.connections} × {self.in_flight}"
        size = f"{self.size} B" if self.size < 1024 else f"{self.size // 1024} KiB"
        match self.kind:
            case Kind.SEND:
                text = f"send {size}, {shape}"
            case Kind.BATCH:
                text = f"send 32 × {size}, {shape}"
            case Kind.PULL:
                text = f"pull {self.count_max} × {size}, {self.connections} connections"
            case Kind.PUSH:
                return f"push latency, {self.per_s:,} messages/s of {size}"
        return text + (f", {self.topics:,} topics" if self.topics > 1 else "")


def all_rows() -> Iterator[RowShape]:
    for connections in (1, 8, 64):
        for in_flight in (1, 16, 64):
            yield _send(128, connections, in_flight)
    for size in (1024, 16 * 1024):
        for connections, in_flight in ((1, 1), (8, 1), (8, 16), (64, 16)):
            yield _send(size, connections, in_flight)
    for size, shapes in (
        (128, ((1, 1), (8, 4), (8, 16), (64, 1))),
        (1024, ((1, 1), (8, 4))),
    ):
        for connections, in_flight in shapes:
            yield RowShape(kind=Kind.BATCH, size=size, connections=connections, in_flight=in_flight)
    for count_max, size, connections in (
        (32, 128, 1),
        (32, 128, 8),
        (32, 1024, 1),
        (32, 1024, 8),
        (1, 128, 1),
        (1, 128, 8),
        (1, 1024, 8),
    ):
        yield RowShape(kind=Kind.PULL, size=size, connections=connections, count_max=count_max)
    yield RowShape(kind=Kind.PUSH, size=27, per_s=1_000, count_max=32)
    for topics in TOPIC_COUNTS[1:]:
        yield _send(128, 8, 16, topics)


def quick_rows() -> Iterator[RowShape]:
    """One of each kind, for a look while working."""
    yield _send(128, 1, 1)
    yield _send(128, 8, 16)
    yield _send(128, 64, 1)
    yield _send(1024, 8, 16)
    yield _send(16 * 1024, 8, 16)
    yield RowShape(kind=Kind.BATCH, size=128, connections=8, in_flight=4)
    yield RowShape(kind=Kind.BATCH, size=1024, connections=8, in_flight=4)
    yield RowShape(kind=Kind.PULL, size=1024, connections=1, count_max=32)
    yield RowShape(kind=Kind.PULL, size=1024, connections=8, count_max=32)
    yield RowShape(kind=Kind.PULL, size=128, connections=8, count_max=1)
    yield RowShape(kind=Kind.PUSH, size=27, per_s=1_000, count_max=32)
    yield _send(128, 8, 16, TOPIC_COUNTS[-1])


def _send(size: int, connections: int, in_flight: int, topics: int = 1) -> RowShape:
    return RowShape(
        kind=Kind.SEND, size=size, connections=connections, in_flight=in_flight, topics=topics
    )
