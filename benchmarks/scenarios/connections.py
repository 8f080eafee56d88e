"""Connections of the load program: each keeps a number of requests in flight and checks answers.

Frames arrive in one large buffer per connection and are looked at where they lie: the load program
must not be the bottleneck.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import cast

from msgspec import Struct

from benchmarks.scenarios.frames import PLACE_FIRST, PullFrames

BUFFER_BYTES = 1024 * 1024
# A frame must fit behind this mark: the largest are pulls of 256 KiB.
COMPACT_BELOW_BYTES = 320 * 1024

_FOUND = b'{"code":0,'
_BUSY = b'{"code":2,'
_NOTHING_YET = (b'{"code":19,', b'{"code":20,')
_OPAQUE = b'"opaque":'
_NEXT_OFFSET = b'"nextBeginOffset":"'
_STAMP_BYTES = 16


class Tally(Struct):
    """What all connections of one measurement have counted."""

    messages: int = 0
    requests: int = 0
    refused: int = 0  # told to come again later
    latencies_s: list[float] = []
    failure: str | None = None


class FrameConnection(asyncio.BufferedProtocol):
    """Cuts what arrives into frames; subclasses look at each one."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._begin = self._end = 0
        self._outbox: list[bytes] = []
        self._is_stopping = False
        self.outstanding = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.begin()
        self.flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        if BUFFER_BYTES - self._end < COMPACT_BELOW_BYTES:
            rest = self._end - self._begin
            self._buffer[:rest] = self._buffer[self._begin : self._end]
            self._begin, self._end = 0, rest
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        now = time.perf_counter()
        buffer, begin, end = self._buffer, self._begin, self._end
        while end - begin >= 4:
            following = begin + 4 + int.from_bytes(buffer[begin : begin + 4], "big")
            if following > end:
                break
            self.outstanding -= 1
            self.take(begin, following, now)
            begin = following
        self._begin = begin
        if begin == end:
            self._begin = self._end = 0
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_stopping:
            self.fail(f"the server closed a connection: {error}")

    def begin(self) -> None:
        """Send the first requests."""

    def take(self, start: int, end: int, now: float) -> None:
        """One whole answer lies in the buffer from `start` to `end`."""

    def request(self, frame: bytes) -> None:
        if not self._is_stopping:
            self.outstanding += 1
            self._outbox.append(frame)

    def stop(self) -> None:
        """Send no more; answers on their way are still taken."""
        self._is_stopping = True

    def close(self) -> None:
        self._transport.close()

    def fail(self, reason: str) -> None:
        self._tally.failure = self._tally.failure or reason
        self._is_stopping = True

    def place_of(self, start: int) -> int:
        at = self._buffer.find(_OPAQUE, start) + len(_OPAQUE)
        return int(self._buffer[at : at + 6]) - PLACE_FIRST

    def header_text(self, start: int) -> bytes:
        size = int.from_bytes(self._buffer[start + 5 : start + 8], "big")
        return bytes(self._buffer[start + 8 : start + 8 + min(size, 400)])

    def flush(self) -> None:
        if self._outbox:
            self._transport.write(b"".join(self._outbox))
            self._outbox.clear()


class SendConnection(FrameConnection):
    """Every place in flight has its own sequence of frames and goes on when it is answered."""

    def __init__(self, tally: Tally, frames: Sequence[Sequence[bytes]], messages: int) -> None:
        super().__init__(tally)
        self._frames = frames
        self._messages = messages  # per request
        self._sent_at = [0.0] * len(frames)
        self._turns = [0] * len(frames)

    def begin(self) -> None:
        for place in range(len(self._frames)):
            self._send(place, time.perf_counter())

    def take(self, start: int, end: int, now: float) -> None:
        place = self.place_of(start)
        tally = self._tally
        if self._buffer[start + 8 : start + 18] == _FOUND:
            tally.messages += self._messages
            tally.requests += 1
            tally.latencies_s.append(now - self._sent_at[place])
        elif self._buffer[start + 8 : start + 18] == _BUSY:
            tally.refused += 1
        else:
            self.fail(f"unexpected answer {self.header_text(start)!r}")
            return
        self._send(place, now)

    def _send(self, place: int, now: float) -> None:
        turn = self._turns[place]
        frames = self._frames[place]
        self._turns[place] = turn + 1 if turn + 1 < len(frames) else 0
        self._sent_at[place] = now
        self.request(frames[turn])


class PullConnection(FrameConnection):
    """Reads a queue from its beginning to its end, again and again."""

    def __init__(self, tally: Tally, frames: PullFrames, end_offset: int) -> None:
        super().__init__(tally)
        self._frames = frames
        self._end_offset = end_offset
        self._offset = 0
        self._sent_at = 0.0

    def begin(self) -> None:
        self._sent_at = time.perf_counter()
        self.request(self._frames.at(0))

    def take(self, start: int, end: int, now: float) -> None:
        if self._buffer[start + 8 : start + 18] != _FOUND:
            self.fail(f"unexpected answer {self.header_text(start)!r}")
            return
        following = next_offset(self._buffer, start)
        tally = self._tally
        tally.messages += following - self._offset
        tally.requests += 1
        tally.latencies_s.append(now - self._sent_at)
        self._offset = following if following < self._end_offset else 0
        self._sent_at = now
        self.request(self._frames.at(self._offset))


class PushConnection(FrameConnection):
    """A consumer that waits for messages; their bodies say when they were sent."""

    def __init__(self, tally: Tally, frames: PullFrames, offset: int) -> None:
        super().__init__(tally)
        self._frames = frames
        self._offset = offset

    def begin(self) -> None:
        self.request(self._frames.at(self._offset))

    def take(self, start: int, end: int, now: float) -> None:
        if self._buffer[start + 8 : start + 18] == _FOUND:
            following = next_offset(self._buffer, start)
            self._note_stamps(start, end, now)
            self._tally.messages += following - self._offset
            self._tally.requests += 1
            self._offset = following
        elif self._buffer[start + 8 : start + 19] not in _NOTHING_YET:
            self.fail(f"unexpected answer {self.header_text(start)!r}")
            return
        self.request(self._frames.at(self._offset))

    def _note_stamps(self, start: int, end: int, now: float) -> None:
        at = start
        while (at := self._buffer.find(STAMP_MARK, at, end)) >= 0:
            at += len(STAMP_MARK)
            sent_at_ns = int(self._buffer[at : at + _STAMP_BYTES], 16)
            self._tally.latencies_s.append(now - sent_at_ns / 1e9)


STAMP_MARK = b"sent-at-ns:"


def stamped_body() -> bytes:
    """A body that says when it was sent, on the clock of this process."""
    return STAMP_MARK + f"{int(time.perf_counter() * 1e9):0{_STAMP_BYTES}x}".encode()


class PacedSender(FrameConnection):
    """Sends at a fixed rate, whatever the answers do."""

    def __init__(self, tally: Tally, make: Callable[[], bytes], per_s: float) -> None:
        super().__init__(tally)
        self._make = make
        self._interval_s = 1 / per_s
        self._loop = asyncio.get_running_loop()

    def begin(self) -> None:
        self._due = self._loop.time()
        self._tick()

    def _tick(self) -> None:
        now = self._loop.time()
        while self._due <= now and not self._is_stopping:
            self.request(self._make())
            self._due += self._interval_s
        self.flush()
        if not self._is_stopping:
            self._loop.call_at(self._due, self._tick)

    def take(self, start: int, end: int, now: float) -> None:
        if self._buffer[start + 8 : start + 18] == _BUSY:
            self._tally.refused += 1
        elif self._buffer[start + 8 : start + 18] != _FOUND:
            self.fail(f"unexpected answer {self.header_text(start)!r}")


def next_offset(buffer: bytearray, start: int) -> int:
    at = buffer.find(_NEXT_OFFSET, start) + len(_NEXT_OFFSET)
    return int(buffer[at : buffer.index(b'"', at)])
