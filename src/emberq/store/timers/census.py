"""Counts what waits in the wheel by topic, from the units of the timer log.

Read from the oldest unit that a slot leads to, in order: chains of slots whose messages came in
turns would lead through the whole log once per slot.
"""

from msgspec import Struct

from emberq.store.timers.unit_log import TimerLog
from emberq.store.timers.units import DELETES, UNIT_SIZE, iter_units
from emberq.store.timers.wheel import TimerWheel


class TopicCount(Struct):
    """Of all topics with one hash."""

    log_offset: int  # of a message that tells the topic
    count: int = 0  # markers that take messages back count as minus one


class TimerCensus:
    """What waited when it was made; that does not change, whatever is put and delivered since."""

    def __init__(self, log: TimerLog, wheel: TimerWheel, read_time_ms: int) -> None:
        """Slots from `read_time_ms` on are not delivered."""
        self._log = log
        self._precision_ms = wheel.precision_ms
        # A slot that was left in part has a new chain: units before its first one are delivered.
        self._firsts = {time_ms: slot.first for time_ms, slot in wheel.slots_from(read_time_ms)}
        self._end = log.end
        self._position = min(self._firsts.values(), default=self._end)
        self.counts: dict[int, TopicCount] = {}  # by the topic's hash

    def count_some(self) -> bool:
        """Count a piece of the log; False: that was all. May wait.

        Raises:
            OSError
        """
        if self._position >= self._end:
            return False
        content, following = self._log.piece(self._position)
        firsts, counts, precision_ms = self._firsts, self.counts, self._precision_ms
        position = self._position
        for unit in iter_units(content):
            if position >= self._end:
                break
            _, _, flags, written_at_ms, delay_ms, log_offset, _, topic_hash, _ = unit
            first = firsts.get((written_at_ms + delay_ms) // precision_ms * precision_ms)
            if first is not None and first <= position:
                known = counts.get(topic_hash)
                if known is None:
                    known = counts[topic_hash] = TopicCount(log_offset)
                known.count += -1 if flags & DELETES else 1
            position += UNIT_SIZE
        self._position = following
        return following < self._end
