"""What a round of checks does with a half message that nobody has ended. No I/O, no clock."""

from enum import Enum, auto

from msgspec import Struct

from emberq.broker.transactions.half_messages import Properties, check_times
from emberq.record.property_names import CHECK_IMMUNITY_TIME_IN_SECONDS
from emberq.record.record import Record

_DIGITS_MAX = 15


class Verdict(Enum):
    STOP = auto()  # too young, and so are all behind it
    ASK = auto()  # put a copy at the end of the queue and ask its producers
    PUT_BACK = auto()  # put a copy at the end of the queue and ask later
    PARK = auto()  # give it up


class CheckLimits(Struct, frozen=True, kw_only=True):
    """`transactionTimeOut`, `transactionCheckMax` and `fileReservedTime`."""

    timeout_ms: int
    check_max: int
    kept_ms: int


def judge(
    half: Record, properties: Properties, began_ms: int, now_ms: int, limits: CheckLimits
) -> Verdict:
    """Decide about one half message in a round that began at a time."""
    age_ms = now_ms - half.born_at_ms
    if check_times(properties) >= limits.check_max or age_ms > limits.kept_ms:
        return Verdict.PARK
    if half.stored_at_ms >= began_ms:
        return Verdict.STOP
    immune_for_ms = immunity_ms(properties, limits.timeout_ms)
    if immune_for_ms is not None:
        return Verdict.PUT_BACK if age_ms < immune_for_ms else Verdict.ASK
    return Verdict.STOP if 0 <= age_ms < limits.timeout_ms else Verdict.ASK


def immunity_ms(properties: Properties, timeout_ms: int) -> int | None:
    """How long its producers are not asked, and after how long they have to wait for being asked;
    None: it does not say. Never shorter than the timeout."""
    text = properties.get(CHECK_IMMUNITY_TIME_IN_SECONDS)
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return max(int(text) * 1000 if is_number else 0, timeout_ms)


def is_too_late(half: Record, properties: Properties, now_ms: int, timeout_ms: int) -> bool:
    """Whether only an answer to a question may end it: its own time to say so is over."""
    immune_for_ms = immunity_ms(properties, timeout_ms)
    return immune_for_ms is not None and now_ms - half.born_at_ms > immune_for_ms
