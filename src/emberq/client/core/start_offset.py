"""Where a consumer begins to read a queue."""

from enum import Enum, auto

from emberq.model.subscription import ConsumeFromWhere

NO_STORED_OFFSET = -1


class Start(Enum):
    """What must be asked to know the offset."""

    STORED = auto()
    FIRST = auto()  # 0: a broker that begins later says so
    END = auto()  # the maximum offset
    TIME = auto()  # the first message at or after a time


def start_of(stored_offset: int, where: ConsumeFromWhere, *, is_retry_topic: bool) -> Start:
    """A stored offset always wins; retries are never skipped because a group is new."""
    if stored_offset >= 0:
        return Start.STORED
    if where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
        return Start.END if is_retry_topic else Start.TIME
    if where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET or is_retry_topic:
        return Start.FIRST
    return Start.END
