"""Entries of a consume queue as an administrator sees them (321)."""

from msgspec import Struct, field

from emberq.model.subscription import Subscription


class ConsumeQueueEntry(Struct, frozen=True, kw_only=True):
    bit_map: str | None = field(name="bitMap", default=None)
    is_match: bool = field(name="eval", default=False)
    extension_json: str | None = field(name="extendDataJson", default=None)
    remark: str | None = field(name="msg", default=None)
    log_offset: int = field(name="physicOffset", default=0)
    size_bytes: int = field(name="physicSize", default=0)
    tag_code: int = field(name="tagsCode", default=0)


class ConsumeQueueEntries(Struct, frozen=True, kw_only=True):
    filter_text: str | None = field(name="filterData", default=None)
    queue_offset_max: int = field(name="maxQueueIndex", default=0)
    queue_offset_min: int = field(name="minQueueIndex", default=0)
    entries: list[ConsumeQueueEntry] | None = field(name="queueData", default=None)
    subscription: Subscription | None = field(name="subscriptionData", default=None)
