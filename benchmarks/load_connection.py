"""One connection of the load program: keeps a number of requests in flight and checks answers."""

import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from typing import cast

from msgspec import Struct

# Both length words, the header's kind and the answer's code: `{"code":0,` or `{"code":3,`.
CHECKED_BYTES = 4 + 4 + 10


class AnswerShape(Struct, frozen=True):
    """What every right answer looks like: its whole size and its first bytes."""

    size: int
    beginning: bytes

    @classmethod
    def of(cls, answer: bytes) -> "AnswerShape":
        return cls(len(answer), answer[:CHECKED_BYTES])


class Tally(Struct):
    """What all connections of one measurement have counted; latencies only with 1 in flight."""

    answers: int = 0
    latencies_s: list[float] | None = None
    failure: str | None = None


class LoadConnection(asyncio.Protocol):
    """Sends the next request for each answer; with a pause, only after waiting that long."""

    def __init__(
        self,
        requests: Iterator[bytes],
        expected: AnswerShape,
        tally: Tally,
        *,
        in_flight: int = 1,
        pause_s: float = 0.0,
        is_counted: bool = True,
    ) -> None:
        self._requests = requests
        self._expected = expected
        self._tally = tally
        self._in_flight = in_flight
        self._pause_s = pause_s
        self._is_counted = is_counted
        self._is_timed = is_counted and tally.latencies_s is not None
        self._rest = b""
        self._sent_at = 0.0
        self._is_stopping = False
        self.outstanding = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send(self._in_flight)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        size, beginning = self._expected.size, self._expected.beginning
        count, left = divmod(len(data), size)
        self._rest = data[-left:] if left else b""
        if not count:
            return
        for start in range(0, count * size, size):
            if data[start : start + CHECKED_BYTES] != beginning:
                self._fail(f"unexpected answer {data[start : start + 200]!r}")
                return
        if self._is_counted:
            self._tally.answers += count
        self.outstanding -= count
        if self._is_timed and self._tally.latencies_s is not None:
            self._tally.latencies_s.append(time.perf_counter() - self._sent_at)
        if self._is_stopping:
            return
        if self._pause_s:
            asyncio.get_running_loop().call_later(self._pause_s, self._send, count)
        else:
            self._send(count)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_stopping:
            self._fail(f"the server closed a connection: {error}")

    def stop(self) -> None:
        """Send no more; answers on their way are still counted."""
        self._is_stopping = True

    def close(self) -> None:
        self._transport.close()

    def _send(self, count: int) -> None:
        if self._is_stopping:
            return
        self.outstanding += count
        if self._is_timed:
            self._sent_at = time.perf_counter()
        if count == 1:
            self._transport.write(next(self._requests))
        else:
            self._transport.write(b"".join(islice(self._requests, count)))

    def _fail(self, reason: str) -> None:
        self._tally.failure = self._tally.failure or reason
        self._is_stopping = True
