"""Brokers that were slow or unreachable, and for how long a producer avoids them."""

from bisect import bisect_right

# As official clients of 5.x: an attempt that took at least LATENCIES[i] keeps its broker away
# for AVOIDED[i].
LATENCIES_MS = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
AVOIDED_MS = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
# What a failed attempt counts for, whatever time it took.
ISOLATION_LATENCY_MS = 10_000


class BrokerFaults:
    """What is known of each broker. Only extends a penalty that runs, never shortens it."""

    def __init__(self) -> None:
        self._avoided_until_ms: dict[str, float] = {}
        self._unreachable: set[str] = set()

    def note(
        self,
        broker: str,
        latency_ms: float,
        now_ms: float,
        *,
        is_isolated: bool,
        is_reachable: bool,
    ) -> None:
        """Record an attempt."""
        penalty_ms = _penalty_ms(ISOLATION_LATENCY_MS if is_isolated else latency_ms)
        until_ms = now_ms + penalty_ms
        if until_ms > self._avoided_until_ms.get(broker, 0.0):
            self._avoided_until_ms[broker] = until_ms
        if is_reachable:
            self._unreachable.discard(broker)
        else:
            self._unreachable.add(broker)

    def is_available(self, broker: str, now_ms: float) -> bool:
        return now_ms >= self._avoided_until_ms.get(broker, 0.0)

    def is_reachable(self, broker: str) -> bool:
        return broker not in self._unreachable

    def found_reachable(self, broker: str) -> None:
        """A probe was answered."""
        self._unreachable.discard(broker)

    def suspects(self, now_ms: float) -> list[str]:
        """Brokers that are worth a probe."""
        return [name for name in self._avoided_until_ms if not self.is_available(name, now_ms)]

    def forget(self, broker: str) -> None:
        self._avoided_until_ms.pop(broker, None)
        self._unreachable.discard(broker)


def _penalty_ms(latency_ms: float) -> int:
    at = bisect_right(LATENCIES_MS, latency_ms) - 1
    return AVOIDED_MS[at] if at >= 0 else 0
