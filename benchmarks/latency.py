"""Latencies as percentiles."""

from collections.abc import Mapping

POINTS = {"p50": 0.5, "p99": 0.99, "max": 1.0}
TAIL_POINTS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def percentiles_ms(
    latencies_s: list[float], points: Mapping[str, float] = POINTS
) -> dict[str, float]:
    """Milliseconds at each point; empty if nothing was measured."""
    ordered = sorted(latencies_s)
    last = len(ordered) - 1
    return {
        name: round(ordered[int(last * at)] * 1000, 3) for name, at in points.items() if ordered
    }
