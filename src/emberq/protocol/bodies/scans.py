"""Ends, starts and offsets of many queues at once. The formats are docs/formats/scan.md."""

from msgspec import Struct, field

# Topic → queue id → offset.
OffsetsByTopic = dict[str, dict[int, int]]
# Queue id, first offset, next offset, committed offset or -1, pinned start or -1.
HeadRow = tuple[int, int, int, int, int]


# Topics of one SCAN_HEADS.
HEADS_TOPICS_MAX = 10_000


class HeadsQuery(Struct, frozen=True, kw_only=True):
    topics: list[str]
    group: str | None = None


class Heads(Struct, frozen=True, kw_only=True):
    queues: dict[str, list[HeadRow]]
    store_root: str = field(name="storeRoot", default="")
    store_id: str = field(name="storeId", default="")


class PinRequest(Struct, frozen=True, kw_only=True):
    group: str
    starts: OffsetsByTopic
    is_cleared: bool = field(name="clear", default=False)


class PinnedStarts(Struct, frozen=True, kw_only=True):
    starts: OffsetsByTopic


class CommitRequest(Struct, frozen=True, kw_only=True):
    group: str
    offsets: OffsetsByTopic


def group_in_use_remark(group: str, count: int) -> str:
    """Why offsets of a group are not moved, whoever finds it out: code 16."""
    return (
        f"consumers of the group {group} are online ({count}): they would skip what a query has "
        "read; choose a group of the query's own"
    )


class ScanStartTable(Struct, frozen=True, kw_only=True):
    """config/emberqScanStarts.json: group → topic → queue id → offset."""

    groups: dict[str, OffsetsByTopic] = field(default_factory=dict)
