"""What a scan asks for and what it finds."""

from msgspec import Struct

from emberq.model.subscription import TAG_EXPRESSION


class ScanFilter(Struct, frozen=True, kw_only=True):
    """What the broker leaves out. A tag filter goes by hashes: compare the tags again."""

    expression: str = "*"
    expression_type: str = TAG_EXPRESSION


class QueueHead(Struct, frozen=True, gc=False):
    """Both ends of a queue, and where a group stands in it."""

    min_offset: int
    max_offset: int
    committed: int | None = None
    start: int | None = None


class ScannedPart(Struct, frozen=True, gc=False):
    """Records as they lie in the log, or entries; and where to read on."""

    content: bytes
    next_offset: int
    min_offset: int
    max_offset: int
    # Of messages that were left out. EmberQ's brokers leave them out themselves and do not say.
    damaged: tuple[int, ...] = ()


class StoreHint(Struct, frozen=True, gc=False):
    """Where a broker's files are, for readers that may be on its machine."""

    root: str
    store_id: str
