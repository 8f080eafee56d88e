"""Which handler serves which request code.

Three kinds of handler, so that each code pays only for what it needs:

- plain: a function of the request that answers at once;
- async: a coroutine, for work that waits; it runs as a task of its own;
- typed: either of them with a header class; the fields are parsed before the call.
"""

from collections.abc import Awaitable, Callable, Iterator
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from emberq.protocol.codes import EmberqCode, RequestCode
from emberq.protocol.command import Command
from emberq.protocol.header_fields import Header, from_fields
from emberq.record.layout import BytesLike

if TYPE_CHECKING:
    from emberq.remoting.connection import Connection

H = TypeVar("H")

# A command is encoded by the connection; bytes are a frame that the handler encoded itself, a list
# is such a frame in parts, which may be views of mapped files. None means that there is no answer
# now (a oneway request, or one that is held for later).
FrameParts = list[BytesLike]
Answer = Command | bytes | FrameParts | None


class Request(Struct, Generic[H], gc=False):
    """A typed request: its parsed header, the command it came in, and who sent it."""

    header: H
    command: Command
    connection: "Connection"

    @property
    def body(self) -> bytes:
        return self.command.body


PlainHandler = Callable[[Command, "Connection"], Answer]
AsyncHandler = Callable[[Command, "Connection"], Awaitable[Answer]]


class Entry(Struct, frozen=True, gc=False):
    handle: Callable[[Command, "Connection"], Any]
    is_async: bool
    # A request that waited longer than this in our buffers is refused as busy; None: never.
    wait_max_ms: float | None


class HandlerRegistry:
    """A table from code to handler; a code has one handler or none."""

    def __init__(
        self, entries: dict[int, Entry] | None = None, wait_max_ms: float | None = None
    ) -> None:
        self._entries: dict[int, Entry] = {} if entries is None else entries
        self._wait_max_ms = wait_max_ms
        self.get = self._entries.get  # by code; asked once per request, so there is no way around

    def limited(self, wait_max_ms: float | None) -> "HandlerRegistry":
        """The same table; what is added through this view may wait no longer."""
        return HandlerRegistry(self._entries, wait_max_ms)

    def add(
        self,
        code: RequestCode | EmberqCode,
        handler: PlainHandler | AsyncHandler,
        *,
        wait_max_ms: float | None = None,
    ) -> None:
        """Register a handler that reads the command itself."""
        self._put(code, Entry(handler, iscoroutinefunction(handler), self._limit(wait_max_ms)))

    def add_typed(
        self,
        header_type: type[Header],
        handler: Callable[[Request[Any]], Answer] | Callable[[Request[Any]], Awaitable[Answer]],
        *,
        code: RequestCode | EmberqCode | None = None,
        wait_max_ms: float | None = None,
    ) -> None:
        """Register a handler that takes a parsed header."""

        def parse_and_handle(command: Command, connection: "Connection") -> Any:
            header = from_fields(header_type, command.fields or {})
            return handler(Request(header, command, connection))

        is_async = iscoroutinefunction(handler)
        served = header_type.code if code is None else code
        self._put(served, Entry(parse_and_handle, is_async, self._limit(wait_max_ms)))

    def set_wait_max(self, code: RequestCode, wait_max_ms: float | None) -> None:
        """Change how long requests of a code may wait; the code must have a handler."""
        self._entries[int(code)] = replace(self._entries[int(code)], wait_max_ms=wait_max_ms)

    @property
    def has_wait_limits(self) -> bool:
        return any(entry.wait_max_ms is not None for entry in self._entries.values())

    def codes(self) -> Iterator[int]:
        return iter(sorted(self._entries))

    def _limit(self, wait_max_ms: float | None) -> float | None:
        return self._wait_max_ms if wait_max_ms is None else wait_max_ms

    def _put(self, code: RequestCode | EmberqCode, entry: Entry) -> None:
        if code in self._entries:
            raise ValueError(f"{code.name} is already handled")
        self._entries[int(code)] = entry
