"""Rows at a steady pace."""

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from emberq.pipelines import pace
from emberq.pipelines.pace import expect, paced


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_rows_come_in_order_and_no_faster_than_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    batches = [
        pa.RecordBatch.from_pydict({"n": list(range(first, first + 70))}) for first in (0, 70)
    ]
    seen: list[tuple[float, int]] = []

    rows: list[int] = []
    for batch in paced(20)(iter(batches)):
        rows += batch.column("n").to_pylist()
        seen.append((clock.now - 100.0, len(rows)))

    assert rows == list(range(140))
    assert all(count <= 20 * passed_s + 2.001 for passed_s, count in seen)
    assert seen[-1][0] == pytest.approx(6.9)


def test_who_does_not_listen_is_told_nothing_of_expected_times() -> None:
    said: list[str] = []

    expect(said.append, 60)

    assert said == []
