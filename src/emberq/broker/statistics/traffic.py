"""How much goes through the store: totals, rates over three stretches of time, put times."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from emberq.protocol.fastjson_writer import java_double

# Rates are told over so many seconds; one sample per second.
RATE_SPANS_S = (10, 60, 600)
SAMPLE_PERIOD_S = 1
# How long put times are collected before the next stretch begins.
PUT_TIMES_PERIOD_S = 60

# Upper bounds, exclusive, of the groups in which tools show put times; the last group is open.
SHOWN_BOUNDS_MS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
SHOWN_NAMES = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]"),
    *("[500ms~1s]", "[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)


class TrafficSample(NamedTuple):
    taken_at_ms: int
    put_count: int
    found_count: int
    missed_count: int
    transferred_count: int


class PutTimes:
    """How many messages took how many milliseconds."""

    def __init__(self) -> None:
        self.count_by_ms: dict[int, int] = {}

    def percentile(self, fraction: float) -> float:
        """The time within which this fraction of all puts was done."""
        wanted = fraction * sum(self.count_by_ms.values())
        seen = 0
        for time_ms in sorted(self.count_by_ms):
            seen += self.count_by_ms[time_ms]
            if seen >= wanted:
                return float(time_ms)
        return 0.0

    def text(self) -> str:
        counts = [0] * len(SHOWN_NAMES)
        for time_ms, count in self.count_by_ms.items():
            counts[bisect_left(SHOWN_BOUNDS_MS, time_ms + 1)] += count
        return "".join(f"{name}:{count} " for name, count in zip(SHOWN_NAMES, counts, strict=True))


class Traffic:
    """What was put and read, whoever did it."""

    def __init__(self) -> None:
        self.put_count = 0
        self.put_failed_count = 0
        self.put_time_max_ms = 0
        self.get_time_max_ms = 0
        self.found_count = 0
        self.missed_count = 0
        self.transferred_count = 0
        self.put_times = PutTimes()  # of the last whole minute
        self._samples: deque[TrafficSample] = deque(maxlen=RATE_SPANS_S[-1] + 1)
        self._sample_count = 0
        self._current_put_times = PutTimes()
        self._calls_before = 0

    def note_put_ms(self, time_ms: int) -> None:
        """Count a put that waited for the disk; the others are known by their number."""
        self.put_time_max_ms = max(self.put_time_max_ms, time_ms)
        times = self._current_put_times.count_by_ms
        times[time_ms] = times.get(time_ms, 0) + 1

    def note_put_failed(self) -> None:
        self.put_failed_count += 1

    def note_get(self, found: bool, count: int) -> None:
        if found:
            self.found_count += 1
            self.transferred_count += count
        else:
            self.missed_count += 1

    def note_get_ms(self, time_ms: int) -> None:
        """Note a read that waited for the disk; the others take no time worth telling."""
        self.get_time_max_ms = max(self.get_time_max_ms, time_ms)

    def sample(self, now_ms: int, put_calls: Callable[[], int]) -> None:
        """To be called once per second; `put_calls` tells how many puts there were in all."""
        self._samples.append(
            TrafficSample(
                now_ms,
                self.put_count,
                self.found_count,
                self.missed_count,
                self.transferred_count,
            )
        )
        self._sample_count += 1
        if self._sample_count % PUT_TIMES_PERIOD_S == 0:
            self._begin_minute(put_calls())

    def _begin_minute(self, put_calls: int) -> None:
        times = self._current_put_times.count_by_ms
        instant_count = put_calls - self._calls_before - sum(times.values())
        if instant_count > 0:
            times[0] = times.get(0, 0) + instant_count
        self._calls_before = put_calls
        self.put_times, self._current_put_times = self._current_put_times, PutTimes()

    def rates(self, counter: str) -> str:
        """Three figures separated by blanks; one that is not known yet is empty."""
        texts = []
        for span_s in RATE_SPANS_S:
            rate = self._rate(counter, span_s)
            texts.append("" if rate is None else java_double(rate))
        return " ".join(texts)

    def get_rates(self) -> str:
        """Found or not; unknown figures are zero here, in official brokers too."""
        return " ".join(
            java_double(
                (self._rate("found_count", span_s) or 0.0)
                + (self._rate("missed_count", span_s) or 0.0)
            )
            for span_s in RATE_SPANS_S
        )

    def _rate(self, counter: str, span_s: int) -> float | None:
        if len(self._samples) <= span_s:
            return None
        last, first = self._samples[-1], self._samples[-span_s - 1]
        span_ms = last.taken_at_ms - first.taken_at_ms
        if span_ms <= 0:
            return 0.0  # the clock was set back
        difference: int = getattr(last, counter) - getattr(first, counter)
        return difference * 1000.0 / span_ms
