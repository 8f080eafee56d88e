"""What a queue entry says about its message's tag, and when that is a delivery time instead."""

from collections.abc import Mapping

from emberq.record.string_hash import tag_code

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
UNKNOWN_LEVEL_DELAY_MS = 1_000

# messageDelayLevel's default, level 1 first.
DELAYS_DEFAULT_MS = tuple(
    seconds * 1000
    for seconds in (
        *(1, 5, 10, 30),
        *(60 * minutes for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
        *(3600 * hours for hours in (1, 2)),
    )
)


class TagCodes:
    """Computes the third field of a queue entry."""

    def __init__(self, delays_ms: tuple[int, ...] = DELAYS_DEFAULT_MS) -> None:
        self._delays_ms: Mapping[int, int] = dict(enumerate(delays_ms, start=1))

    def of(self, topic: str, tags: str | None, delay: str | None, stored_at_ms: int) -> int:
        if topic == SCHEDULE_TOPIC and delay is not None:
            return stored_at_ms + self._delay_ms(delay)
        return tag_code(tags) if tags else 0

    def _delay_ms(self, delay: str) -> int:
        try:
            level = int(delay)
        except ValueError:
            return UNKNOWN_LEVEL_DELAY_MS
        highest = max(self._delays_ms, default=0)
        return self._delays_ms.get(min(level, highest), UNKNOWN_LEVEL_DELAY_MS)
