"""The bounds of the network layer."""

import pytest

from emberq.remoting.limits import RemotingLimits


@pytest.mark.parametrize(
    ("low", "high", "maximum"), [(2, 1, 3), (1, 4, 3), (-1, 1, 3)], ids=["low", "high", "negative"]
)
def test_marks_of_the_write_buffer_out_of_order_are_refused(
    low: int, high: int, maximum: int
) -> None:
    with pytest.raises(ValueError, match="out of order"):
        RemotingLimits(
            write_buffer_low_bytes=low,
            write_buffer_high_bytes=high,
            write_buffer_max_bytes=maximum,
        )


def test_the_defaults_are_in_order() -> None:
    limits = RemotingLimits()

    assert limits.frame_size_max_bytes < limits.write_buffer_max_bytes
    assert limits.frame_size_max_bytes < limits.partial_frames_total_max_bytes
