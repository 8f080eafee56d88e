"""Processes die and power fails at any point; any subset of unsynced pages and names survives."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.store_lives import StoreLives
from tests.support.stores import SYNC

pytestmark = pytest.mark.property

LIVES = 5


# Only the seed is searched for: examples that hypothesis finds simple are too short to hurt.
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_under_sync_flush_nothing_acknowledged_is_lost(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lives = StoreLives(Path(folder), Random(seed), **SYNC)
        for _ in range(LIVES):
            lives.live()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_under_async_flush_what_is_left_is_what_was_put_first(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lives = StoreLives(Path(folder), Random(seed))
        for _ in range(LIVES):
            lives.live()
