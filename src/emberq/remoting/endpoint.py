"""What all connections of one server, or of one client, have in common."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from emberq.remoting.backlog import Backlog, Work
from emberq.remoting.dispatch import Dispatcher
from emberq.remoting.hooks import CallHook
from emberq.remoting.limits import RemotingLimits
from emberq.remoting.registry import HandlerRegistry
from emberq.remoting.tls import ServerTls
from emberq.remoting.write_turn import WriteTurn

if TYPE_CHECKING:
    from emberq.remoting.connection import Connection

OnConnection = Callable[["Connection"], None]


def _ignore(_: "Connection") -> None:
    return None


def _call_soon(work: Work) -> None:
    asyncio.get_running_loop().call_soon(work)


def check_port(port: int) -> None:
    """uvloop takes the low 16 bits of any number, asyncio raises OverflowError."""
    if not 0 <= port <= 65535:
        raise ValueError("a port is a number from 0 to 65535")


class Endpoint:
    """Handlers, limits and hooks, and the connections that share them."""

    def __init__(
        self,
        registry: HandlerRegistry | None = None,
        *,
        limits: RemotingLimits | None = None,
        hooks: tuple[CallHook, ...] = (),
        tls: ServerTls | None = None,
        on_open: OnConnection = _ignore,
        on_close: OnConnection = _ignore,
        write_turn: WriteTurn | None = None,
    ) -> None:
        self.registry = registry or HandlerRegistry()
        self.limits = limits or RemotingLimits()
        self.hooks = hooks
        self.tls = tls
        self.on_open = on_open
        self.on_close = on_close
        self.dispatcher = Dispatcher(self.registry, self.limits, hooks)
        self.connections: set[Connection] = set()
        self.backlog = Backlog(
            self.limits.backlog_per_turn_max_ms / 1000, time.perf_counter, _call_soon
        )
        self.write_turn = write_turn or WriteTurn()
        self.partial_frames_bytes = 0
        self.loop_lag_ms = 0.0
        self.is_stopping = False
