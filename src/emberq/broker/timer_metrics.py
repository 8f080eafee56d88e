"""How many messages of each topic wait for their time: `timermetrics`, and the answer to 61."""

from collections.abc import Callable

from emberq.model.data_version import DataVersion
from emberq.protocol.bodies.timers import TimerMetricsTable, WaitingCount


class TimerMetrics:
    """No I/O, no clock."""

    def __init__(
        self,
        stored: TimerMetricsTable | None = None,
        now_ms: int = 0,
        *,
        is_doubtful: bool = False,
    ) -> None:
        """`is_doubtful`: the stored table may be older than the wheel."""
        self.is_doubtful = is_doubtful
        stored = stored or TimerMetricsTable()
        self._version = stored.data_version or DataVersion(timestamp_ms=now_ms)
        self._change_count = 0  # since that version
        self._changed_at_ms = now_ms
        # Count and time of the last change; changed in place, since every message does.
        self._counts = {
            topic: [known.count, known.changed_at_ms] for topic, known in stored.counts.items()
        }
        self._on_change: Callable[[], None] = lambda: None
        # Messages put into the wheel, and delivered from it, since the start.
        self.enqueued_count = 0
        self.dequeued_count = 0
        self._sampled = (now_ms, 0, 0)
        self.rates = (0.0, 0.0)  # of the last sample: in and out, per second

    def on_change(self, listener: Callable[[], None]) -> None:
        self._on_change = listener

    def add(self, topic: str, count: int, now_ms: int) -> None:
        known = self._counts.setdefault(topic, [0, 0])
        known[0] += count
        known[1] = self._changed_at_ms = now_ms
        self._change_count += 1
        self._on_change()

    def counts(self) -> dict[str, int]:
        return {topic: count for topic, (count, _) in self._counts.items()}

    def correct(self, before: dict[str, int], counted: dict[str, int], now_ms: int) -> int:
        """Topics had `before` what turned out to be `counted`; returns how many were wrong."""
        wrong = 0
        for topic in before.keys() | counted.keys():
            missing = counted.get(topic, 0) - before.get(topic, 0)
            if missing:
                self.add(topic, missing, now_ms)
                wrong += 1
        self.is_doubtful = False
        return wrong

    def forget(self, topic: str) -> None:
        """The topic is deleted."""
        if self._counts.pop(topic, None) is not None:
            self._on_change()

    def table(self) -> TimerMetricsTable:
        if self._change_count:
            self._version = DataVersion(
                counter=self._version.counter + self._change_count,
                state_version=self._version.state_version,
                timestamp_ms=self._changed_at_ms,
            )
            self._change_count = 0
        counts = {
            topic: WaitingCount(count=count, changed_at_ms=changed_at_ms)
            for topic, (count, changed_at_ms) in self._counts.items()
        }
        return TimerMetricsTable(data_version=self._version, counts=counts)

    def sample(self, now_ms: int) -> None:
        """Called about once per second."""
        before_ms, enqueued, dequeued = self._sampled
        span_ms = now_ms - before_ms
        if span_ms > 0:
            self.rates = (
                (self.enqueued_count - enqueued) * 1000 / span_ms,
                (self.dequeued_count - dequeued) * 1000 / span_ms,
            )
        self._sampled = (now_ms, self.enqueued_count, self.dequeued_count)
