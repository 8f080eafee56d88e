"""Sends with the user's hooks around them and their figures noted; free where there are neither."""

import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from emberq.client.core.message import Message, SendResult
from emberq.client.hooks import Entered, SendHook, Sending, enter_send, leave
from emberq.client.metrics import Measures

Send = Callable[[Sequence[Message]], Awaitable[Sequence[SendResult]]]


class WatchedSends:
    """Of one producer."""

    def __init__(self, group: str, hooks: Sequence[SendHook], measures: Measures | None) -> None:
        self._group = group
        self._hooks = hooks
        self._measures = measures

    async def run(self, messages: Sequence[Message], send: Send) -> Sequence[SendResult]:
        """Send, with what hooks add. Raises what hooks raise before, and what `send` raises."""
        sending = Sending(group=self._group, messages=messages)
        entered: Entered = enter_send(self._hooks, sending)
        if sending.properties:
            messages = [
                replace(each, properties={**each.properties, **sending.properties})
                for each in messages
            ]
        started_at = time.monotonic()
        error: BaseException | None = None
        try:
            results = await send(messages)
            sending.results.extend(results)
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self._measures is not None:
                took_s = time.monotonic() - started_at
                self._measures.sent(self._group, sending.topic, len(messages), error, took_s)
            leave(entered, error)
        return results
