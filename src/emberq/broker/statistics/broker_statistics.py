"""All counters of a broker under their official names.

What happens for every message only adds to one cell; the many official counters are sums over
cells, made when somebody asks.
"""

from collections.abc import Callable, Collection, Iterator

from emberq.broker.statistics.cells import CellTable, Figures, Window
from emberq.broker.statistics.days import DayTotals
from emberq.broker.statistics.names import (
    BROKER_GET,
    BROKER_GET_OF_USERS,
    BROKER_PUT,
    BROKER_PUT_OF_USERS,
    COUNTERS,
    COUNTERS_WITHOUT_QUEUES,
    OF_BROKER,
    SEND_BACK,
    SEPARATOR,
    Column,
    parse_key,
)
from emberq.broker.statistics.topic_cells import GetCells, PutCells
from emberq.broker.statistics.traffic import Traffic
from emberq.protocol.bodies.statistics import BrokerStats, StatsItem


class BrokerStatistics:
    """`is_system_topic` decides what the totals of the day leave out."""

    def __init__(
        self,
        cluster: str,
        *,
        is_system_topic: Callable[[str], bool],
        has_queue_figures: bool = True,
    ) -> None:
        self.traffic = Traffic()
        self.days = DayTotals()
        self._cluster = cluster
        self._counters = COUNTERS if has_queue_figures else COUNTERS_WITHOUT_QUEUES
        self._puts = PutCells(is_system_topic)
        self._gets = GetCells(is_system_topic)
        self._others: CellTable[tuple[str, str]] = CellTable(len(Column))  # by name and key
        self._get_count = 0  # of all gets; that of puts is the traffic's
        self._put_cell = self._puts.cells.get
        self._get_cell = self._gets.cells.get
        self.note_get = self.traffic.note_get
        self.count_put_failed = self.traffic.note_put_failed
        self.note_get_ms = self.traffic.note_get_ms

    def count_put(self, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0) -> None:
        """Messages that were put into a queue together."""
        cell = self._put_cell((topic, queue_id))
        if cell is None:
            cell = self._puts.new((topic, queue_id))
        cell[0] += 1
        cell[1] += count
        cell[2] += size
        self.traffic.put_count += count
        if time_ms:
            cell[3] += time_ms

    def count_get(
        self, group: str, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0
    ) -> None:
        """Messages that a client got out of a queue with one request."""
        cell = self._get_cell((group, topic, queue_id))
        if cell is None:
            cell = self._gets.new((group, topic, queue_id))
        cell[0] += 1
        cell[1] += count
        cell[2] += size
        self._get_count += count
        if time_ms:
            cell[3] += time_ms

    def count_put_wait_ms(self, topic: str, queue_id: str, time_ms: int) -> None:
        """The time that a put had to wait for the disk; the queue is named as its request does."""
        self.traffic.note_put_ms(time_ms)
        if time_ms and queue_id.isdigit() and queue_id.isascii():
            cell = self._put_cell((topic, int(queue_id)))
            if cell is not None:
                cell[Column.TIME] += time_ms

    def count_send_back(self, group: str, topic: str) -> None:
        self.count(SEND_BACK, f"{topic}{SEPARATOR}{group}")

    def count(self, name: str, key: str, value: int = 1) -> None:
        """Any other counter, by its official name."""
        cell = self._others.cells.get((name, key))
        if cell is None:
            cell = self._others.new((name, key))
        cell[0] += 1
        cell[1] += value

    def put_total(self) -> int:
        """Messages from clients since the start, those in system topics left out."""
        return self.traffic.put_count - self._puts.of_system()

    def get_total(self) -> int:
        return self._get_count - self._gets.of_system()

    def put_size(self) -> int:
        """Bytes of all messages that were put since the start; looks at every queue."""
        return self._puts.sum_of(Column.SIZE)

    def sample_traffic(self, now_ms: int) -> None:
        """To be called once per second."""
        self.traffic.sample(now_ms, lambda: self._puts.sum_of(Column.CALLS))

    def begin_day(self) -> None:
        self.days.begin_day(self.put_total(), self.get_total())

    def sampling(self, window: Window, now_ms: int) -> Iterator[None]:
        """Keep the present state of all counters for a window, in steps."""
        self._update_totals()
        yield from self._puts.sampling(window, now_ms)
        yield from self._gets.sampling(window, now_ms)
        yield from self._others.sampling(window, now_ms)

    def sample(self, window: Window, now_ms: int) -> None:
        for _ in self.sampling(window, now_ms):
            pass

    def view(self, name: str, key: str) -> BrokerStats | None:
        """A counter's last minute, hour and day; None: there is no such counter."""
        if name.startswith(OF_BROKER):
            self._update_totals()  # perhaps the first message has come since the last sample
        day, hour, minute = (
            self._figures(name, key, window) for window in (Window.DAY, Window.HOUR, Window.MINUTE)
        )
        if day is None or hour is None or minute is None:
            return None
        return BrokerStats(day=_item(day), hour=_item(hour), minute=_item(minute))

    def put_tps(self, topic: str) -> float:
        """Messages per second over the last minute."""
        figures = self._figures("TOPIC_PUT_NUMS", topic, Window.MINUTE)
        return 0.0 if figures is None else figures.per_second

    def get_tps(self, group: str, topic: str) -> float:
        figures = self._figures("GROUP_GET_NUMS", f"{topic}{SEPARATOR}{group}", Window.MINUTE)
        return 0.0 if figures is None else figures.per_second

    def forget_topics(self, topics: Collection[str]) -> None:
        """Drop the counters of deleted topics."""
        gone = set(topics)
        self._puts.forget([key for key in self._puts.cells if key[0] in gone])
        self._forget_gets(lambda key: key[1] in gone)
        self._forget_send_backs(lambda key: key.partition(SEPARATOR)[0] in gone)

    def forget_group(self, group: str) -> None:
        """Drop a deleted group's counters."""
        self._forget_gets(lambda key: key[0] == group)
        self._forget_send_backs(lambda key: key.endswith(f"{SEPARATOR}{group}"))

    def _forget_gets(self, is_meant: Callable[[tuple[str, str, int]], bool]) -> None:
        self._gets.forget([key for key in self._gets.cells if is_meant(key)])

    def _forget_send_backs(self, is_meant: Callable[[str], bool]) -> None:
        cells = self._others.cells
        self._others.remove(
            [(name, key) for name, key in cells if name == SEND_BACK and is_meant(key)]
        )

    def _update_totals(self) -> None:
        """Official brokers count no calls here, so the averages are zero."""
        for name, total in (
            (BROKER_PUT, self.traffic.put_count),
            (BROKER_PUT_OF_USERS, self.put_total()),
            (BROKER_GET, self._get_count),
            (BROKER_GET_OF_USERS, self.get_total()),
        ):
            if total:
                key = (name, self._cluster)
                cell = self._others.cells.get(key) or self._others.new(key)
                cell[Column.COUNT] = total

    def _figures(self, name: str, key: str, window: Window) -> Figures | None:
        counter = self._counters.get(name)
        if counter is None:
            place = self._others.places.get((name, key))
            if place is None:
                return None
            return self._others.figures(window, [place], Column.COUNT, Column.CALLS)
        parsed = parse_key(counter, key)
        if parsed is None:
            return None
        topic, group, queue_id = parsed
        if group is None:
            return self._puts.figures_of(window, topic, queue_id, counter.column)
        return self._gets.figures_of(window, (topic, group), queue_id, counter.column)


def _item(figures: Figures) -> StatsItem:
    return StatsItem(
        sum=figures.sum,
        per_second=figures.per_second,
        average_per_call=figures.average_per_call,
    )
