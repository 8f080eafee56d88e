"""How far the timer is (60), what waits in it (61), and its figures among those of 28."""

from collections.abc import Callable

from emberq.broker.timer_metrics import TimerMetrics
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command, answer
from emberq.protocol.fastjson_writer import java_double
from emberq.remoting.connection import Connection
from emberq.remoting.registry import HandlerRegistry
from emberq.store.timers.timer_store import TimerStore


class TimerHandlers:
    """What slaves copy."""

    def __init__(
        self, timers: TimerStore | None, metrics: TimerMetrics, now_ms: Callable[[], int]
    ) -> None:
        self._timers = timers
        self._metrics = metrics
        self._now_ms = now_ms

    def add_to(self, registry: HandlerRegistry) -> None:
        registry.add(RequestCode.GET_TIMER_CHECK_POINT, self.get_check)
        registry.add(RequestCode.GET_TIMER_METRICS, self.get_metrics)

    def get_check(self, command: Command, _: Connection) -> Command:
        if self._timers is None:
            return answer(command, ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
        return answer(command, body=self._timers.check_at(self._now_ms()).encode())

    def get_metrics(self, command: Command, _: Connection) -> Command:
        if self._timers is None:
            return answer(command, ResponseCode.SYSTEM_ERROR, "The timer message store is null")
        return answer(command, body=encode_body(self._metrics.table()))


def timer_figures(
    timers: TimerStore | None, metrics: TimerMetrics, queue_end: int, now_ms: int
) -> dict[str, str]:
    """`queue_end` is that of the timer's topic. Of a broker without a timer all are zero."""
    waiting_count = behind_count = behind_s = 0
    rates = (0.0, 0.0)
    if timers is not None:
        waiting_count = timers.waiting_count
        behind_count = max(0, queue_end - timers.queue_offset)
        behind_s = max(0, now_ms - timers.read_time_ms) // 1000
        rates = metrics.rates
    return {
        "timerCongestNum": str(waiting_count),
        "timerDequeueTps": java_double(rates[1]),
        "timerEnqueueTps": java_double(rates[0]),
        "timerOffsetBehind": str(behind_count),
        "timerReadBehind": str(behind_s),
    }
