"""A transport without a socket: it remembers what was written and does what it is told."""

import asyncio
from collections.abc import Iterable

from emberq.protocol.command import Command
from emberq.protocol.frame import FrameDecoder


class FakeTransport(asyncio.Transport):
    """Takes every write at once, or keeps them in its buffer while `is_stuck`."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 50000)})
        self.writes: list[bytes] = []
        self.buffered_bytes = 0
        self.is_stuck = False
        self.is_aborted = False
        self._protocol: asyncio.Protocol | None = None
        self._is_closing = False
        self._is_reading = True
        self._is_protocol_paused = False
        self._high = self._low = 0

    def attach(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def unstick(self) -> None:
        """The peer has read everything."""
        self.is_stuck = False
        self.buffered_bytes = 0
        if self._is_protocol_paused and self._protocol is not None:
            self._is_protocol_paused = False
            self._protocol.resume_writing()

    @property
    def commands(self) -> list[Command]:
        """All that was written, read as the peer would."""
        decoder = FrameDecoder()
        decoder.feed(b"".join(self.writes))
        return list(iter(decoder.next, None))

    # What a transport does

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing:
            return
        self.writes.append(bytes(data))
        if self.is_stuck:
            self.buffered_bytes += len(data)
            if self.buffered_bytes > self._high and not self._is_protocol_paused:
                self._is_protocol_paused = True
                assert self._protocol is not None
                self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return self.buffered_bytes

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self.is_stuck:
                self._lose()

    def abort(self) -> None:
        self._is_closing = self.is_aborted = True
        self._lose()

    def _lose(self) -> None:
        assert self._protocol is not None
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)
