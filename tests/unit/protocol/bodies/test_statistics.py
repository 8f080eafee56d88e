"""Texts of time spans."""

import pytest

from emberq.protocol.bodies.statistics import time_span_text


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [(0, "1970-01-01#00:00:00:000"), (1_700_000_000_044, "2023-11-14#22:13:20:044")],
)
def test_a_time_looks_as_official_brokers_write_it(at_ms: int, text: str) -> None:
    assert time_span_text(at_ms) == text
