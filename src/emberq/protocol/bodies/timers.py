"""How many messages wait for their time, by topic (61, config/timermetrics)."""

from msgspec import Struct, field

from emberq.model.data_version import DataVersion


class WaitingCount(Struct, frozen=True, kw_only=True):
    count: int = 0
    changed_at_ms: int = field(name="timeStamp", default=0)


class TimerMetricsTable(Struct, frozen=True, kw_only=True):
    data_version: DataVersion | None = field(name="dataVersion", default=None)
    counts: dict[str, WaitingCount] = field(name="timingCount", default_factory=dict)
