"""When a timed message is due, and in which slot of the wheel official brokers keep it."""

from emberq.errors import RecordError
from emberq.record.properties import find_stored_property
from emberq.record.property_names import (
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)

PRECISIONS_MS = (100, 200, 500, 1000)
PRECISION_MAX_MS = PRECISIONS_MS[-1]
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_NUMBER_LENGTH_MAX = 64
# Far beyond every maximum, and near enough that sums of it stay within 64 bits.
SLOT_MAX_MS = 1 << 60


def usable_precision_ms(asked_ms: int) -> int:
    """The largest precision that is not above what was asked for; 100 at least."""
    return max((known for known in PRECISIONS_MS if known <= asked_ms), default=PRECISIONS_MS[0])


def slot_time_ms(deliver_ms: int, precision_ms: int) -> int:
    """The slot of a delivery time: it holds what is due after it, up to the next slot's time."""
    return (deliver_ms - 1) // precision_ms * precision_ms


def parse_number(text: str | bytes) -> int:
    """A 64-bit number in the form that official brokers read.

    Raises:
        ValueError: it is none.
    """
    digits = text[1:] if text[:1] in ("+", "-", b"+", b"-") else text
    if not (digits.isascii() and digits.isdigit() and len(text) <= _NUMBER_LENGTH_MAX):
        raise ValueError("not a number")
    number = int(text)
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise ValueError("beyond 64 bits")
    return number


def wrapped(number: int) -> int:
    """What is left of a sum in 64 bits: official brokers compute times without a look."""
    return (number - _INT64_MIN & 0xFFFF_FFFF_FFFF_FFFF) + _INT64_MIN


def asked_time_ms(
    seconds: str | bytes | None,
    milliseconds: str | bytes | None,
    time: str | bytes | None,
    now_ms: int,
) -> int | None:
    """The time that the three properties ask for, the first one given; None without any.

    Raises:
        ValueError: it is no number.
    """
    if seconds is not None:
        return wrapped(now_ms + wrapped(parse_number(seconds) * 1000))
    if milliseconds is not None:
        return wrapped(now_ms + parse_number(milliseconds))
    return None if time is None else parse_number(time)


_SECONDS, _MILLISECONDS = TIMER_DELAY_SECONDS.encode(), TIMER_DELAY_MS.encode()
_TIME, _OUT = TIMER_DELIVER_MS.encode(), TIMER_OUT_MS.encode()


def stored_slot_ms(properties: bytes) -> int:
    """The slot that a waiting message names.

    Raises:
        RecordError: it names none.
    """
    text = find_stored_property(properties, _OUT)
    try:
        slot_ms = parse_number(text or b"")
    except ValueError:
        slot_ms = SLOT_MAX_MS + 1
    if abs(slot_ms) > SLOT_MAX_MS:
        raise RecordError(f"a timed message without a time: TIMER_OUT_MS={text!r}")
    return slot_ms


def stored_due_ms(properties: bytes, stored_at_ms: int, slot_ms: int, precision_ms: int) -> int:
    """When a waiting message is due: what its producer asked for, within its slot.

    A delay counts from when the message was stored. That is later for one that was put again while
    it waited; then the end of its slot is as near as can be known. The slot may be of a time when
    slots were longer.
    """
    try:
        asked_ms = asked_time_ms(
            find_stored_property(properties, _SECONDS),
            find_stored_property(properties, _MILLISECONDS),
            find_stored_property(properties, _TIME),
            stored_at_ms,
        )
    except ValueError:
        asked_ms = None
    if asked_ms is None or asked_ms > slot_ms + PRECISION_MAX_MS:
        return slot_ms + precision_ms
    return max(asked_ms, slot_ms + 1)
