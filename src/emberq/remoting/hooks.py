"""What others may hang into a call: access control and tracing do."""

from typing import Protocol

from emberq.protocol.command import Command


class CallHook(Protocol):
    """Runs around each request, on the side that sends it as well as on the side that serves it.

    Serving side: `before` may raise RequestRejected, which becomes the answer. Sending side:
    `before` may add fields (a signature); `after` sees None when no answer came.
    """

    def before(self, peer: str, request: Command) -> None: ...

    def after(self, peer: str, request: Command, response: Command | None) -> None: ...
