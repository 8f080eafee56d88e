"""From the files of the timer to a wheel that agrees with its log.

The check file says up to where both are durable. Units behind that are put into the wheel again,
and slots that lead behind the end of the log are rebuilt.
"""

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from emberq.store.timers.check_file import TimerCheck
from emberq.store.timers.unit_log import TimerLog, UnitReader
from emberq.store.timers.units import DELETES, NO_POSITION, UNIT_SIZE
from emberq.store.timers.wheel import EMPTY, Slot, TimerWheel

# Official brokers may be a unit or two behind with their wheel when they write the check file.
REPLAYED_BEFORE_BYTES = 1_024 * UNIT_SIZE
# Units of old slots may be deleted: so many are tried until one is found.
SLOTS_COMPARED_MAX = 1_000


class RecoveredTimers(Struct, frozen=True, kw_only=True):
    waiting_count: int
    # Slots with something in them, oldest first.
    slot_times_ms: list[int]
    # Log offsets of messages that are in the timer log although the check file does not say so.
    enqueued: frozenset[int]
    last_log_offset: int  # of the newest unit; -1 without any


def recover_timers(
    log: TimerLog, wheel: TimerWheel, check: TimerCheck, *, is_wheel_known: bool, log_end: int
) -> RecoveredTimers:
    """Make log and wheel agree. `log_end` is the end of the commit log.

    Raises:
        StoreDamaged: files of another size than is configured.
        OSError
    """
    first = log.first_position()
    if first is None:
        wheel.clear()
        return RecoveredTimers(
            waiting_count=0, slot_times_ms=[], enqueued=frozenset(), last_log_offset=-1
        )
    if not is_wheel_known or not _fits(wheel, log):
        wheel.clear()
        start = first
    else:
        start = _replay_start(log, max(first, check.log_position - REPLAYED_BEFORE_BYTES))
    enqueued, last_log_offset = _replay(log, wheel, start, check, log_end)
    lost = {
        time_ms: slot
        for time_ms, slot in wheel.slots_from(check.read_time_ms)
        if slot.last >= log.end
    }
    if lost:
        _rebuild(log, wheel, lost, first)
    waiting_count = 0
    times_ms: list[int] = []
    for time_ms, slot in wheel.slots_from(check.read_time_ms):
        waiting_count += slot.number
        times_ms.append(time_ms)
    times_ms.sort()
    return RecoveredTimers(
        waiting_count=waiting_count,
        slot_times_ms=times_ms,
        enqueued=frozenset(enqueued),
        last_log_offset=last_log_offset,
    )


def _replay_start(log: TimerLog, position: int) -> int:
    """The unit at or before a position."""
    start = log.file_start(position)
    return start + (position - start) // UNIT_SIZE * UNIT_SIZE


def _fits(wheel: TimerWheel, log: TimerLog) -> bool:
    """Whether the wheel was made with this precision: a slot agrees with its units."""
    log_reader = UnitReader(log)
    for time_ms, slot in islice(wheel.slots_from(0), SLOTS_COMPARED_MAX):
        unit = log_reader.unit(slot.last)
        if unit is not None:
            return (unit[3] + unit[4]) // wheel.precision_ms == time_ms // wheel.precision_ms
    return True


def _replay(
    log: TimerLog, wheel: TimerWheel, start: int, check: TimerCheck, log_end: int
) -> tuple[set[int], int]:
    enqueued: set[int] = set()
    last_log_offset = -1
    for position, unit in log.scan(start):
        _, _, flags, written_at_ms, delay_ms, log_offset, size, _, _ = unit
        if log_offset + size > log_end:  # the commit log lost the message, and all that follow
            log.cut(position)
            return enqueued, last_log_offset
        wheel.replay(written_at_ms + delay_ms, position, -1 if flags & DELETES else 1)
        last_log_offset = log_offset
        if position >= check.log_position:
            enqueued.add(log_offset)
    log.cut(log.end)
    return enqueued, last_log_offset


def _rebuild(log: TimerLog, wheel: TimerWheel, lost: dict[int, Slot], first: int) -> None:
    """Fill slots anew from the log: their newest units are gone."""
    for time_ms in lost:
        wheel.put(time_ms, EMPTY)
    start = _first_of(lost.values(), first)
    end = log.end
    for position, unit in log.scan(_replay_start(log, start)):
        if position >= end:
            break
        time_ms = (unit[3] + unit[4]) // wheel.precision_ms * wheel.precision_ms
        if time_ms in lost:
            wheel.replay(time_ms, position, -1 if unit[2] & DELETES else 1)
    log.cut(end)


def _first_of(slots: Iterable[Slot], first: int) -> int:
    known = [slot.first for slot in slots if slot.first != NO_POSITION]
    return max(first, min(known, default=first))
