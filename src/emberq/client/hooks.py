"""Hooks: functions of the user's around every send and every call of a handler.

A hook is given what is about to happen and returns a context manager, for instance of a generator
with `@contextmanager`: what stands before its `yield` runs before, what stands behind it runs
after, and failures pass through it.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from msgspec import Struct, field

from emberq.client.core.message import Message, SendResult
from emberq.client.core.received import ReceivedMessage

log = logging.getLogger(__name__)


class Sending(Struct, kw_only=True):
    """A send that is about to happen, with all its attempts."""

    group: str
    # One, or those of a batch, as the user gave them.
    messages: Sequence[Message]
    # Added to the properties of each message; hooks put theirs here.
    properties: dict[str, str] = field(default_factory=dict)
    # One per request, when it has ended well; none of a send without an answer.
    results: list[SendResult] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return self.messages[0].topic


# What it raises before its `yield` is raised by the send, and nothing is sent.
SendHook = Callable[[Sending], AbstractContextManager[object]]
# Runs where the handler runs, in its thread or task.
ConsumeHook = Callable[[Sequence[ReceivedMessage]], AbstractContextManager[object]]

Entered = list[AbstractContextManager[object]]


def enter_send(hooks: Sequence[SendHook], sending: Sending) -> Entered:
    """Raises what a hook raises; those before it are left then."""
    entered: Entered = []
    try:
        for hook in hooks:
            manager = hook(sending)
            manager.__enter__()
            entered.append(manager)
    except BaseException as error:
        leave(entered, error)
        raise
    return entered


def enter_consume(hooks: Sequence[ConsumeHook], batch: Sequence[ReceivedMessage]) -> Entered:
    """A hook that fails is left out: messages must not stop for it."""
    entered: Entered = []
    for hook in hooks:
        try:
            manager = hook(batch)
            manager.__enter__()
        except Exception:
            log.exception("hook_failed message=%s", batch[0])
        else:
            entered.append(manager)
    return entered


def leave(entered: Entered, error: BaseException | None) -> None:
    """Whatever hooks do here, the outcome stays what it was."""
    for manager in reversed(entered):
        try:
            if error is None:
                manager.__exit__(None, None, None)
            else:
                manager.__exit__(type(error), error, error.__traceback__)
        except Exception as raised:
            if raised is not error:
                log.exception("hook_failed")
