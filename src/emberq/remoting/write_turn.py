"""Connections that got something to write outside of their own turn, written together.

Answers that others caused (a message wakes a pull, a sync releases sends) come for many
connections at once: one call of the loop serves all of them, and whoever made the answers may have
them written before the loop looks for new input.
"""

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)

# Answers that wait for others to be written with them: enough to wake a peer but once, few enough
# that nobody notices.
WAITING_MAX = 16


class Writer(Protocol):
    def flush(self) -> None:
        """Write what is waiting."""


class WriteTurn:
    def __init__(self) -> None:
        self._waiting: list[Writer] = []
        self._is_scheduled = False

    def add(self, writer: Writer) -> None:
        """Have a connection flushed in this turn of the loop; once, unless it is added again."""
        self._waiting.append(writer)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write_in_turn)

    def join(self, writer: Writer) -> bool:
        """Whether a connection that could write now is flushed with others a little later: all
        but the first of a turn. Peers that are woken once for many answers cost both sides less."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write_in_turn)
            return False
        self._waiting.append(writer)
        if len(self._waiting) >= WAITING_MAX:
            self.write()
        return True

    def _write_in_turn(self) -> None:
        self._is_scheduled = False
        self.write()

    def write(self) -> None:
        """Flush everybody who waits, now."""
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            try:
                writer.flush()
            except Exception:  # one connection's trouble must not reach the others
                log.exception("flush_failed")
