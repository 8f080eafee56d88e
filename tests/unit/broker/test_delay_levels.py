"""Reading messageDelayLevel."""

import pytest

from emberq.broker.config import DELAY_LEVELS_DEFAULT
from emberq.broker.delay_levels import DelayLevels, parse_delay_levels
from emberq.errors import ConfigError
from emberq.store.tag_codes import DELAYS_DEFAULT_MS


def test_the_default_is_what_the_store_takes_for_it() -> None:
    assert parse_delay_levels(DELAY_LEVELS_DEFAULT).delays_ms == DELAYS_DEFAULT_MS


def test_every_unit_is_known() -> None:
    levels = parse_delay_levels("2s 3m 4h 1d")

    assert levels == DelayLevels((2_000, 180_000, 14_400_000, 86_400_000))
    assert [levels.delay_ms(level) for level in (1, 4)] == [2_000, 86_400_000]


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5x", "1s  2s", "-1s", "1.5s", "٣s", "9" * 30 + "d"]
)
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        parse_delay_levels(text)


def test_a_level_above_the_highest_means_the_highest() -> None:
    levels = DelayLevels((1, 2, 3))

    assert [levels.clamp(level) for level in (1, 3, 4, 99)] == [1, 3, 3, 3]
