"""Whether a message may wait for a time of its own, and in which slot. No I/O."""

import random
from collections.abc import Callable, Mapping

from emberq.broker.config import BrokerConfig
from emberq.record.property_names import (
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELETE_UNIQUE_KEY,
    TIMER_DELIVER_MS,
)
from emberq.store.results import PutStatus
from emberq.store.timers.times import asked_time_ms, slot_time_ms

SlotCount = Callable[[int], int]


class TimedMessages:
    """The checks of a message that asks for a time, in the official order."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        slot_count: SlotCount | None,
        precision_ms: int,
        now_ms: Callable[[], int],
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`slot_count` tells how many messages wait in a slot; None: there is no wheel."""
        self._config = config
        self._slot_count = slot_count
        self._precision_ms = precision_ms
        self._now_ms = now_ms
        self._chance = chance

    def place(self, properties: Mapping[str, str]) -> int | PutStatus | None:
        """The slot to wait in; None for a time that is over: then it is an ordinary message; or
        why it is refused."""
        if self._slot_count is None:
            return PutStatus.WHEEL_TIMER_NOT_ENABLE
        now_ms = self._now_ms()
        try:
            asked_ms = asked_time_ms(
                properties.get(TIMER_DELAY_SECONDS),
                properties.get(TIMER_DELAY_MS),
                properties.get(TIMER_DELIVER_MS),
                now_ms,
            )
        except ValueError:
            return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
        if asked_ms is None or asked_ms <= now_ms:
            is_marker = TIMER_DELETE_UNIQUE_KEY in properties
            return PutStatus.WHEEL_TIMER_MSG_ILLEGAL if is_marker else None
        config = self._config()
        if asked_ms - now_ms > config.timer_max_delay_sec * 1000:
            return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
        slot_ms = slot_time_ms(asked_ms, self._precision_ms)
        if self._is_crowded(self._slot_count(slot_ms), config.timer_congest_num_each_slot):
            return PutStatus.WHEEL_TIMER_FLOW_CONTROL
        return slot_ms

    def _is_crowded(self, count: int, count_max: int) -> bool:
        """Between the limit and twice the limit official brokers let chance decide."""
        if count <= count_max:
            return False
        if count >= 2 * count_max:
            return True
        return int(self._chance() * 1000) > 1000 * (count - count_max) / (count_max + 0.1)


def refusal_remark(status: PutStatus, config: BrokerConfig) -> str | None:
    """The official words for a refused time; None for other outcomes."""
    if status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL:
        return (
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{config.timer_max_delay_sec * 1000}ms; or if set del msg, the delay time should be "
            "bigger than the current time"
        )
    if status is PutStatus.WHEEL_TIMER_FLOW_CONTROL:
        count_max = config.timer_congest_num_each_slot
        return (
            f"timer message is under flow control, max num limit is {2 * count_max} or the current "
            f"value is greater than {count_max} and less than {2 * count_max}, trigger random flow "
            "control"
        )
    if status is PutStatus.WHEEL_TIMER_NOT_ENABLE:
        return "accurate timer message is not enabled, timerWheelEnable is false"
    return None
