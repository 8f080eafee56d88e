"""Queues that orderly consumers hold for themselves. In memory only; the time is passed in."""

from collections.abc import Iterable

from msgspec import Struct

from emberq.model.queue import MessageQueue

# A client refreshes its locks every 20 s and trusts them for 30 s.
LIVE_MAX_MS_DEFAULT = 60_000
# All groups together; a client that invents queues must not fill the memory.
LOCKS_MAX = 1_000_000


class _Lock(Struct, eq=False):
    client_id: str
    refreshed_at_ms: int


class OrderLocks:
    """Per group and queue the client that may consume it.

    A lock outlives the connection of its client, which may come back, but not `live_max_ms`
    without a refresh.
    """

    def __init__(self, live_max_ms: int = LIVE_MAX_MS_DEFAULT, locks_max: int = LOCKS_MAX) -> None:
        self._live_max_ms = live_max_ms
        self._locks_max = locks_max
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int
    ) -> list[MessageQueue]:
        """Lock or refresh what is free, expired or the client's own; returns what is now its."""
        locks = self._groups.setdefault(group, {})
        granted = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                if self._count >= self._locks_max:
                    continue
                locks[queue] = _Lock(client_id, now_ms)
                self._count += 1
            elif lock.client_id == client_id or self._is_expired(lock, now_ms):
                lock.client_id = client_id
                lock.refreshed_at_ms = now_ms
            else:
                continue
            granted.append(queue)
        if not locks:
            del self._groups[group]
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give back the client's own locks; others stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._groups.pop(group, None)

    def owner(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        lock = self._groups.get(group, {}).get(queue)
        return None if lock is None or self._is_expired(lock, now_ms) else lock.client_id

    def has_locks(self, group: str, now_ms: int) -> bool:
        """Whether the group consumes some queue in order now."""
        return any(
            not self._is_expired(lock, now_ms) for lock in self._groups.get(group, {}).values()
        )

    def expire(self, now_ms: int) -> None:
        """Forget expired locks; they count as free anyway."""
        for group, locks in list(self._groups.items()):
            for queue in [queue for queue, lock in locks.items() if self._is_expired(lock, now_ms)]:
                del locks[queue]
                self._count -= 1
            if not locks:
                del self._groups[group]

    def _is_expired(self, lock: _Lock, now_ms: int) -> bool:
        return now_ms - lock.refreshed_at_ms > self._live_max_ms
