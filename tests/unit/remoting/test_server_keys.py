"""Keys that name server and broker share."""

from pathlib import Path

import pytest

from emberq.errors import ConfigError
from emberq.remoting.limits import RemotingLimits
from emberq.remoting.server_keys import (
    check_port,
    check_positive,
    check_water_marks,
    limits_from,
    read_file,
    unknown_key_warning,
)

DEFAULT = RemotingLimits()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing"):
        read_file(tmp_path / "nothing")


def test_a_mistyped_key_comes_with_the_nearest_name() -> None:
    assert unknown_key_warning("listenprt", ["listenPort"]) == (
        "unknown key listenprt has no effect; did you mean listenPort?"
    )


@pytest.mark.parametrize(
    ("high", "low", "marks"),
    [
        (0, 0, (DEFAULT.write_buffer_high_bytes, DEFAULT.write_buffer_low_bytes)),
        (100, 0, (100, 100)),
        (0, 1 << 24, (1 << 24, 1 << 24)),
        (200, 100, (200, 100)),
    ],
)
def test_one_mark_makes_room_for_the_other(high: int, low: int, marks: tuple[int, int]) -> None:
    limits = limits_from(backlog=7, idle_max_s=9, high_water_mark=high, low_water_mark=low)

    assert (limits.write_buffer_high_bytes, limits.write_buffer_low_bytes) == marks
    assert (limits.backlog, limits.idle_max_s) == (7, 9.0)


def test_numbers_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="listenPort=65536"):
        check_port("listenPort", 65_536)
    with pytest.raises(ConfigError, match="x=0"):
        check_positive({"y": 1, "x": 0})
    for high, low in ((1, 2), (-1, 0)):
        with pytest.raises(ConfigError, match="writeBufferHighWaterMark"):
            check_water_marks(high, low)
