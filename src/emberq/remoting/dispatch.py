"""From a request to its answer: look-up, flow control, hooks, and failures as response codes."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from emberq.errors import ProtocolError, RequestRejected
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import ONEWAY_BIT, Command, answer
from emberq.protocol.frame import parse_frame
from emberq.remoting.hooks import CallHook, tell_after
from emberq.remoting.limits import RemotingLimits
from emberq.remoting.registry import Answer, Entry, HandlerRegistry
from emberq.seldom import Seldom

if TYPE_CHECKING:
    from emberq.remoting.connection import Connection

log = logging.getLogger(__name__)

# Clients and operators look for these words; see docs/compatibility.md.
OVERLOAD_REMARK = "[OVERLOAD]system busy, start flow control for a while"
TIMEOUT_REMARK = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while"

# Whoever sends nonsense in a loop must not fill the log.
FAILURE_LOGGED_EVERY_S = 1.0
# A handler that was cancelled gets this long to clean up.
CANCEL_WAIT_MAX_S = 1.0


class Dispatcher:
    """Serves the requests of all connections of one endpoint."""

    def __init__(
        self,
        registry: HandlerRegistry,
        limits: RemotingLimits,
        hooks: tuple[CallHook, ...] = (),
    ) -> None:
        self._entry_of = registry.get
        self._limits = limits
        self._hooks = hooks
        self._tasks: set[asyncio.Task[None]] = set()
        self._bad_requests = Seldom(FAILURE_LOGGED_EVERY_S)
        self._failed_handlers = Seldom(FAILURE_LOGGED_EVERY_S)

    @property
    def in_flight(self) -> int:
        """Requests whose async handlers have not finished."""
        return len(self._tasks)

    def serve(self, command: Command, connection: "Connection") -> None:
        """Handle one request; its answer goes to the connection now or later."""
        entry = self._entry_of(command.code)
        try:
            if entry is None:
                raise RequestRejected(  # noqa: TRY301 - one place turns failures into answers
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    f" request type {command.code} not supported",
                )
            wait_max_ms = entry.wait_max_ms
            if wait_max_ms is not None and connection.waited_ms > wait_max_ms:
                raise self._late(connection.waited_ms)  # noqa: TRY301
            for hook in self._hooks:
                hook.before(connection.peer, command)
            if entry.is_async:
                self._start_task(entry, command, connection)
                return
            result: Answer = entry.handle(command, connection)
        except Exception as error:
            result = self._failure(command, connection, error)
        if self._hooks:
            self.reply(command, connection, result)
        elif result is not None and not command.flag & ONEWAY_BIT:
            connection.send_answer(command, result)

    def reply(self, command: Command, connection: "Connection", result: Answer) -> None:
        """Answer a request, now or as if its handler had just returned."""
        if self._hooks:
            response = _decoded(result)
            tell_after(self._hooks, connection.peer, command, response)
        if result is not None and not command.flag & ONEWAY_BIT:
            connection.send_answer(command, result)

    def answer_with(
        self, command: Command, connection: "Connection", make: Callable[[], Answer]
    ) -> None:
        """Answer a request that was held, as if its handler had just returned what `make` does."""
        try:
            result = make()
        except Exception as error:
            result = self._failure(command, connection, error)
        if result is not None:
            self.reply(command, connection, result)

    async def cancel(self) -> int:
        """Cancel handlers that are still in flight; returns how many there were."""
        unfinished = set(self._tasks)
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished, timeout=CANCEL_WAIT_MAX_S)
        return len(unfinished)

    def _late(self, waited_ms: float) -> RequestRejected:
        return RequestRejected(
            ResponseCode.SYSTEM_BUSY,
            f"{TIMEOUT_REMARK}, period in queue: {waited_ms:.0f}ms, "
            f"size of queue: {self.in_flight}",
        )

    def _start_task(self, entry: Entry, command: Command, connection: "Connection") -> None:
        limits = self._limits
        if (
            len(self._tasks) >= limits.requests_in_flight_max
            or connection.requests_in_flight >= limits.requests_in_flight_per_connection_max
        ):
            raise RequestRejected(ResponseCode.SYSTEM_BUSY, OVERLOAD_REMARK)
        connection.requests_in_flight += 1
        task = asyncio.get_running_loop().create_task(self._await(entry, command, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await(self, entry: Entry, command: Command, connection: "Connection") -> None:
        try:
            result: Answer = await entry.handle(command, connection)
        except Exception as error:
            result = self._failure(command, connection, error)
        finally:
            connection.requests_in_flight -= 1
        self.reply(command, connection, result)

    def _failure(self, command: Command, connection: "Connection", error: Exception) -> Command:
        """The answer to a request that was not served; one in a while is logged."""
        if isinstance(error, RequestRejected):
            return answer(command, error.code, error.remark, error.fields)
        is_theirs = isinstance(error, ProtocolError)
        held_back = (self._bad_requests if is_theirs else self._failed_handlers).held_back()
        if held_back is not None:
            log.log(
                logging.WARNING if is_theirs else logging.ERROR,
                "%s peer=%s code=%d reason=%s not_logged_before=%d",
                "bad_request" if is_theirs else "handler_failed",
                connection.peer,
                command.code,
                error,
                held_back,
                exc_info=None if is_theirs else error,
            )
        return answer(command, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


def _decoded(result: Answer) -> Command | None:
    """What hooks see of an answer, in whichever form the handler made it."""
    if isinstance(result, list):
        result = b"".join(result)
    return parse_frame(result) if isinstance(result, bytes) else result
