"""Cells of queues, found by what they belong to, and their totals."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from emberq.broker.statistics.cells import CellTable, Figures, Window
from emberq.broker.statistics.names import Column

K = TypeVar("K", bound=Hashable)
Owner = TypeVar("Owner", bound=Hashable)

PutKey = tuple[str, int]  # topic, queue
GetKey = tuple[str, str, int]  # group, topic, queue


class QueueCells(CellTable[K], Generic[K, Owner], ABC):
    """What one owner counted is the sum over its queues."""

    def __init__(self, is_system_topic: Callable[[str], bool]) -> None:
        super().__init__(len(Column))
        self._is_system_topic = is_system_topic
        self._keys: dict[Owner, list[K]] = {}
        self._system_keys: set[K] = set()
        # Of keys that are gone: totals must not shrink when a topic is deleted.
        self._gone = [0] * len(Column)
        self._gone_of_users = 0

    @abstractmethod
    def topic_of(self, key: K) -> str: ...

    @abstractmethod
    def owner_of(self, key: K) -> Owner: ...

    @abstractmethod
    def queue_of(self, key: K) -> int: ...

    def new(self, key: K) -> list[int]:
        self._keys.setdefault(self.owner_of(key), []).append(key)
        if self._is_system_topic(self.topic_of(key)):
            self._system_keys.add(key)
        return super().new(key)

    def forget(self, keys: Iterable[K]) -> None:
        for key in keys:
            cell = self.cells[key]
            for column in Column:
                self._gone[column] += cell[column]
            if key not in self._system_keys:
                self._gone_of_users += cell[Column.COUNT]
            self._system_keys.discard(key)
            owner = self.owner_of(key)
            self._keys[owner].remove(key)
            if not self._keys[owner]:
                del self._keys[owner]
            self.remove([key])

    def sum_of(self, column: Column) -> int:
        """Everything since the start, also of keys that are gone."""
        return self.total(column) + self._gone[column]

    def of_system(self) -> int:
        """Messages of system topics since the start."""
        gone = self._gone[Column.COUNT] - self._gone_of_users
        return gone + sum(self.cells[key][Column.COUNT] for key in self._system_keys)

    def figures_of(
        self, window: Window, owner: Owner, queue_id: int | None, column: Column
    ) -> Figures | None:
        """None: nothing was ever counted there."""
        keys = self._keys.get(owner, [])
        places = [
            self.places[key] for key in keys if queue_id is None or self.queue_of(key) == queue_id
        ]
        return self.figures(window, places, column, Column.CALLS) if places else None


class PutCells(QueueCells[PutKey, str]):
    def topic_of(self, key: PutKey) -> str:
        return key[0]

    def owner_of(self, key: PutKey) -> str:
        return key[0]

    def queue_of(self, key: PutKey) -> int:
        return key[1]


class GetCells(QueueCells[GetKey, tuple[str, str]]):
    def topic_of(self, key: GetKey) -> str:
        return key[1]

    def owner_of(self, key: GetKey) -> tuple[str, str]:
        return key[1], key[0]

    def queue_of(self, key: GetKey) -> int:
        return key[2]
