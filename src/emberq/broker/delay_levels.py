"""The delays that a message can be sent with: `messageDelayLevel`, level 1 first."""

from msgspec import Struct

from emberq.errors import ConfigError

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DAY_MS = _UNIT_MS["d"]
# Above this a delivery time would not fit its 8 bytes; nobody waits a thousand years.
DELAY_MAX_MS = 366_000 * _DAY_MS


class DelayLevels(Struct, frozen=True):
    """Levels count from 1; each has its queue in the schedule topic, counted from 0."""

    delays_ms: tuple[int, ...]

    @property
    def highest(self) -> int:
        return len(self.delays_ms)

    def clamp(self, level: int) -> int:
        """A level above the highest means the highest."""
        return min(level, self.highest)

    def delay_ms(self, level: int) -> int:
        return self.delays_ms[level - 1]


def parse_delay_levels(text: str) -> DelayLevels:
    """Read `1s 5s 10m 2h 1d`.

    Raises:
        ConfigError: a part is no number with a unit.
    """
    return DelayLevels(tuple(_delay_ms(part) for part in text.split(" ")))


def _delay_ms(part: str) -> int:
    number, unit_ms = part[:-1], _UNIT_MS.get(part[-1:])
    if unit_ms is None or not (number.isascii() and number.isdigit()):
        raise ConfigError(f"messageDelayLevel: {part!r} is no number followed by s, m, h or d")
    delay_ms = int(number) * unit_ms
    if delay_ms > DELAY_MAX_MS:
        raise ConfigError(f"messageDelayLevel: {part!r} is longer than a thousand years")
    return delay_ms
