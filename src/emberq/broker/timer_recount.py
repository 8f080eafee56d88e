"""Counts anew how many messages of each topic wait for their time when `timermetrics` may be wrong.

It is written now and then, so a crash leaves one that is older than the wheel. Official brokers
repair theirs once a day.
"""

import asyncio
import logging
from collections.abc import Callable

from emberq.broker.timer_metrics import TimerMetrics
from emberq.errors import RecordError
from emberq.record.decode import read_properties
from emberq.record.properties import find_stored_property
from emberq.record.property_names import REAL_TOPIC
from emberq.record.string_hash import tag_code
from emberq.store.timers.census import TimerCensus, TopicCount
from emberq.store.timers.timer_store import ReadRecord, TimerStore

log = logging.getLogger(__name__)

# Between two pieces of the log, each of which takes some milliseconds: others have their turn.
PAUSE_S = 0.005

_REAL_TOPIC = REAL_TOPIC.encode()


class TimerRecount:
    """Made before anything is put into the wheel or delivered; runs beside both."""

    def __init__(
        self,
        timers: TimerStore,
        metrics: TimerMetrics,
        read_record: ReadRecord,
        now_ms: Callable[[], int],
    ) -> None:
        """`read_record` may wait: it is called in threads."""
        self._metrics = metrics
        self._read_record = read_record
        self._now_ms = now_ms
        self._stored = metrics.counts()
        is_needed = metrics.is_doubtful or sum(self._stored.values()) != timers.waiting_count
        self._census = timers.census() if is_needed else None

    async def run(self) -> None:
        """Count once, and correct by the difference: the counts have changed meanwhile."""
        census, self._census = self._census, None
        if census is None:
            return
        try:
            while await asyncio.to_thread(census.count_some):  # noqa: ASYNC110 - it works
                await asyncio.sleep(PAUSE_S)
            counted = await asyncio.to_thread(self._by_topic, census)
        except OSError as error:
            log.error(  # noqa: TRY400 - the disk's, not ours
                "timers_not_counted reason=%s", error.strerror or error
            )
            return
        changed = self._metrics.correct(self._stored, counted, self._now_ms())
        log.info("timers_counted waiting=%d topics_wrong=%d", sum(counted.values()), changed)

    def _by_topic(self, census: TimerCensus) -> dict[str, int]:
        names = {tag_code(topic): topic for topic in self._stored}
        counted: dict[str, int] = {}
        for topic_hash, found in census.counts.items():
            topic = names.get(topic_hash) or self._topic_of(found)
            if topic is not None:
                counted[topic] = counted.get(topic, 0) + found.count
        return counted

    def _topic_of(self, found: TopicCount) -> str | None:
        """None: its message is deleted or damaged, and will not be delivered."""
        try:
            properties = read_properties(self._read_record(found.log_offset) or b"")
        except RecordError:
            return None
        topic = find_stored_property(properties, _REAL_TOPIC)
        return None if topic is None else topic.decode("utf-8", "replace")
