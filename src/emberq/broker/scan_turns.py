"""When the next scan may be served: in the order of arrival, with a share of the time. No clock."""

from collections import deque
from collections.abc import Callable

# Of the loop's time; whoever sends or consumes has the rest for sure.
SHARE_MAX = 0.5
# What handing over the bytes of an answer costs the loop after the handler has returned.
BYTES_PER_S = 2_000_000_000
# Scans that wait for their turn; who comes then is told that the broker is busy.
WAITING_MAX = 1_000


class ScanTurns:
    """Each scan waits as long as the one before it took, so that reading history as fast as a
    network can carry it never shows in the latency of what is live."""

    def __init__(self, share_max: float = SHARE_MAX, waiting_max: int = WAITING_MAX) -> None:
        self._pause_per_work = 1 / share_max - 1
        self._waiting_max = waiting_max
        self._waiting: deque[Callable[[], None]] = deque()
        self._free_at_s = 0.0

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self._waiting_max

    def is_free(self, now_s: float) -> bool:
        """Whether a scan that comes now may be served at once."""
        return not self._waiting and now_s >= self._free_at_s

    def wait(self, serve: Callable[[], None]) -> None:
        self._waiting.append(serve)

    def next(self, now_s: float) -> Callable[[], None] | None:
        """The scan whose turn it is; None: nobody waits, or it is too early."""
        return self._waiting.popleft() if self._waiting and now_s >= self._free_at_s else None

    def pause_s(self, now_s: float) -> float | None:
        """How long until somebody's turn comes; None: nobody waits."""
        return max(0.0, self._free_at_s - now_s) if self._waiting else None

    def served(self, now_s: float, took_s: float, size_bytes: int) -> None:
        """A scan has had its turn."""
        work_s = took_s + size_bytes / BYTES_PER_S
        self._free_at_s = now_s + work_s * self._pause_per_work
