"""What others may hang into a call: access control and tracing do."""

import logging
from typing import Protocol

from emberq.protocol.command import Command

log = logging.getLogger(__name__)


class CallHook(Protocol):
    """Runs around each request, on the side that sends it as well as on the side that serves it.

    Serving side: `before` may raise RequestRejected, which becomes the answer. Sending side:
    `before` may add fields (a signature); `after` sees None when no answer came, which for a
    oneway request is at once.
    """

    def before(self, peer: str, request: Command) -> None: ...

    def after(self, peer: str, request: Command, response: Command | None) -> None: ...


def tell_after(
    hooks: tuple[CallHook, ...], peer: str, request: Command, response: Command | None
) -> None:
    """Run every `after`; one that fails is logged, for the call itself must still end."""
    for hook in hooks:
        try:
            hook.after(peer, request, response)
        except Exception:
            log.exception("hook_failed peer=%s code=%d", peer, request.code)
