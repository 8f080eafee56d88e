"""Timer files after kills and power failures at any point: every waiting message still waits."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.timer_lives import TimerLives

pytestmark = pytest.mark.property

LIVES = 6


# Only the seed is searched for: examples that hypothesis finds simple are too short to hurt.
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_no_waiting_message_is_lost_or_waits_twice(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lives = TimerLives(Path(folder), Random(seed))
        for _ in range(LIVES):
            lives.live()
