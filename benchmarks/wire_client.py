"""A blocking connection that sends one frame and reads its answer: set-up and checks, no load."""

import socket
import time
from types import TracebackType
from typing import Self

from emberq.protocol.command import Command
from emberq.protocol.frame import parse_frame

ANSWER_TIMEOUT_S = 30.0
CONNECT_POLL_S = 0.001


class WireClient:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, frame: bytes) -> tuple[bytes, Command]:
        """The answer's whole frame, and what it says."""
        self.send(frame)
        return self.read()

    def send(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def read(self) -> tuple[bytes, Command]:
        word = self._read_exactly(4)
        frame = word + self._read_exactly(int.from_bytes(word, "big"))
        return frame, parse_frame(frame)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read_exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise RuntimeError("the server closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def wait_for_answer(port: int, request: bytes, timeout_s: float) -> Command:
    """The first answer of a server that is still starting."""
    deadline = time.perf_counter() + timeout_s
    while True:
        try:
            with WireClient(port) as client:
                return client.call(request)[1]
        except ConnectionError:
            if time.perf_counter() > deadline:
                raise
            time.sleep(CONNECT_POLL_S)
