"""Slots of the timer wheel whose time has come or is near: their messages in memory, in order."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from emberq.store.timers.slot_order import SlotOrder, Waiting
from emberq.store.timers.timer_store import SlotContent, TimerStore, is_marker
from emberq.store.timers.units import NO_POSITION

log = logging.getLogger(__name__)

# How long before its time a slot is read from the timer log.
OPENED_BEFORE_MS = 200
# Empty slots passed over at once; after a clock was set forward there may be very many.
PASSED_PER_TURN_MAX = 10_000


class OpenSlot:
    """What is left of one slot."""

    def __init__(self, time_ms: int) -> None:
        self.time_ms = time_ms
        self.order = SlotOrder()
        self.markers = SlotOrder()
        self.deleted: set[str] = set()
        self.is_loaded = False
        self.delivered_count = 0
        # Where the timer's queue ended when the slot's time came. Until all of that is in the
        # wheel, a message of the slot may be one that was taken back.
        self.queue_end: int | None = None

    def add(self, due_ms: int, waiting: Waiting, deleted: str | None) -> None:
        """A message arrived for it."""
        if is_marker(waiting.flags):
            self.markers.add(due_ms, waiting)
            if deleted is not None:
                self.deleted.add(deleted)
        else:
            self.order.add(due_ms, waiting)

    def take(self, content: SlotContent) -> None:
        """What its units say; they are older than what arrived since."""
        for mine, loaded in ((self.order, content.order), (self.markers, content.markers)):
            loaded.follow_with(mine)
        self.order, self.markers = content.order, content.markers
        self.deleted |= content.deleted
        self.is_loaded = True


class OpenSlots:
    """Opens slots as their time comes; lives on the loop's thread."""

    def __init__(
        self,
        timers: TimerStore,
        read_record: Callable[[int], bytes | None],
        on_loaded: Callable[[SlotContent], None],
    ) -> None:
        """`read_record` may wait: it is called in threads."""
        self._timers = timers
        self._read_record = read_record
        self._on_loaded = on_loaded
        self._open: dict[int, OpenSlot] = {}
        self._loading: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[OpenSlot]:
        return iter(self._open.values())

    def arrived(self, slot_ms: int, due_ms: int, waiting: Waiting, deleted: str | None) -> None:
        """A message is in the wheel; an open slot takes it at once."""
        slot = self._open.get(slot_ms)
        if slot is not None:
            slot.add(due_ms, waiting, deleted)

    def current(self, now_ms: int) -> OpenSlot | None:
        """The first slot that has come and is not delivered; None if there is none."""
        timers = self._timers
        if timers.overdue_ms:
            return self._opened(timers.overdue_ms[-1])
        for _ in range(PASSED_PER_TURN_MAX):
            time_ms = timers.read_time_ms
            if time_ms >= now_ms:
                return None
            if time_ms in self._open or timers.wheel.slot(time_ms).last != NO_POSITION:
                return self._opened(time_ms)
            if time_ms + timers.precision_ms > now_ms:
                return None
            timers.read_time_ms += timers.precision_ms
        return None

    def open_next(self, now_ms: int) -> int:
        """Open the slot after the current one in time; returns when to look again."""
        precision_ms = self._timers.precision_ms
        next_ms = self._timers.slot_at(now_ms) + precision_ms
        opened_at_ms = next_ms - min(OPENED_BEFORE_MS, precision_ms // 2)
        if now_ms < opened_at_ms:
            return opened_at_ms
        if self._timers.wheel.slot(next_ms).last != NO_POSITION:
            self._opened(next_ms)
        return next_ms + 1

    def finish(self, slot: OpenSlot) -> None:
        """All of a slot is delivered, and its time is over."""
        timers = self._timers
        del self._open[slot.time_ms]
        timers.leave(slot.time_ms)
        if timers.overdue_ms:
            timers.overdue_ms.pop()
            following = timers.overdue_ms[-1] if timers.overdue_ms else timers.started_ms
            timers.read_time_ms = following
        else:
            timers.read_time_ms = slot.time_ms + timers.precision_ms

    def _opened(self, time_ms: int) -> OpenSlot:
        slot = self._open.get(time_ms)
        if slot is None:
            slot = self._open[time_ms] = OpenSlot(time_ms)
            # What arrives from now on is added to the open slot itself.
            last = self._timers.wheel.slot(time_ms).last
            task = asyncio.ensure_future(self._load(slot, last))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)
        return slot

    async def _load(self, slot: OpenSlot, last: int) -> None:
        try:
            content = await asyncio.to_thread(
                self._timers.load_slot, slot.time_ms, last, self._read_record
            )
        except Exception:
            log.exception("timer_slot_unreadable slot_ms=%d", slot.time_ms)
            self._open.pop(slot.time_ms, None)  # to be opened again
            return
        slot.take(content)
        self._on_loaded(content)

    async def close(self) -> None:
        """Leave the slots so that the next start finds what is not delivered, and only that."""
        await asyncio.gather(*self._loading, return_exceptions=True)
        for slot in self._open.values():
            if slot.is_loaded and slot.delivered_count:
                self._timers.keep_only(slot.time_ms, slot.order, slot.markers)
        self._open.clear()
