"""Ends, starts and offsets of many queues at once. The formats are docs/formats/scan.md."""

from msgspec import Struct, field

# Topic → queue id → offset.
OffsetsByTopic = dict[str, dict[int, int]]
# Queue id, first offset, next offset, committed offset or -1, pinned start or -1.
HeadRow = tuple[int, int, int, int, int]


class HeadsQuery(Struct, frozen=True, kw_only=True):
    topics: list[str]
    group: str | None = None


class Heads(Struct, frozen=True, kw_only=True):
    queues: dict[str, list[HeadRow]]
    store_root: str = field(name="storeRoot", default="")
    store_mark: int = field(name="storeMark", default=0)


class PinRequest(Struct, frozen=True, kw_only=True):
    group: str
    starts: OffsetsByTopic
    is_cleared: bool = field(name="clear", default=False)


class PinnedStarts(Struct, frozen=True, kw_only=True):
    starts: OffsetsByTopic


class CommitRequest(Struct, frozen=True, kw_only=True):
    group: str
    offsets: OffsetsByTopic


class ScanStartTable(Struct, frozen=True, kw_only=True):
    """config/emberqScanStarts.json: group → topic → queue id → offset."""

    groups: dict[str, OffsetsByTopic] = field(default_factory=dict)
