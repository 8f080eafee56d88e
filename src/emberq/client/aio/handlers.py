"""Runs users' handlers: async ones on the loop, sync ones in threads, and judges what they did."""

import asyncio
import contextvars
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import CoroutineType
from typing import Any

from emberq.client.codecs import BYTES, Codec
from emberq.client.core.received import ReceivedMessage
from emberq.client.hooks import ConsumeHook, enter_consume, leave
from emberq.errors import ConfigError, ConsumeControl, ConsumeError

log = logging.getLogger(__name__)

Batch = list[ReceivedMessage]
HandlerFunction = Callable[..., Any]


class Handler:
    """One function for one topic. A batch of one is handed over as the message itself."""

    def __init__(
        self,
        function: HandlerFunction,
        codec: Codec[Any],
        batch_size: int,
        *,
        hooks: Sequence[ConsumeHook] = (),
    ) -> None:
        if not callable(function):
            raise ConfigError(f"{function!r} cannot be called with a message")
        self.name = getattr(function, "__qualname__", repr(function))
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async call
        )
        self.batch_size = batch_size
        self._function = function
        self._codec = codec
        self._takes_list = batch_size > 1
        # Anything but the message itself is handed over.
        self._is_decoded = self._takes_list or codec is not BYTES
        self._hooks = hooks

    def run_async(self, batch: Batch) -> Coroutine[Any, Any, Exception | None]:
        """The failure, or None for success."""
        return self._run_with_hooks(batch) if self._hooks else self._run_async(batch)

    async def _run_with_hooks(self, batch: Batch) -> Exception | None:
        entered = enter_consume(self._hooks, batch)
        try:
            error = await self._run_async(batch)
        except BaseException as cancelled:
            leave(entered, cancelled)
            raise
        leave(entered, error)
        return error

    def run(self, batch: Batch) -> Exception | None:
        """The same in a thread."""
        if not self._hooks:
            return self._run(batch)
        entered = enter_consume(self._hooks, batch)
        error = self._run(batch)
        leave(entered, error)
        return error

    async def _run_async(self, batch: Batch) -> Exception | None:
        try:
            result = self._function(self._argument(batch) if self._is_decoded else batch[0])
            if type(result) is CoroutineType or inspect.isawaitable(result):
                result = await result
        except Exception as error:
            return error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the consumer is being closed
            # Something that the handler awaited was cancelled, not the handler.
            return ConsumeError(f"{self.name} awaited something that was cancelled")
        except SystemExit as error:
            return self._exit(error)
        return None if result is None else self._judged(result)

    def _run(self, batch: Batch) -> Exception | None:
        try:
            result = self._function(self._argument(batch))
        except Exception as error:
            return error
        except SystemExit as error:
            return self._exit(error)
        return self._judged(result)

    def _exit(self, error: SystemExit) -> Exception:
        """It would end the loop's thread and nothing else: consumption would stop silently."""
        return ConsumeError(f"{self.name} raised {error!r}; call stop() to end consumption")

    def _argument(self, batch: Batch) -> Batch | ReceivedMessage:
        if self._codec is not BYTES:
            decode = self._codec.decode
            for message in batch:
                message.value = decode(message.body)
        return batch if self._takes_list else batch[0]

    def _judged(self, result: object) -> Exception | None:
        """Only None is success: whoever returns something believes that it means something."""
        if result is None:
            return None
        if isinstance(result, Awaitable):
            close = getattr(result, "close", None)
            if close is not None:
                close()
            return ConsumeError(f"{self.name} is not async but returned something to await")
        return ConsumeError(
            f"{self.name} returned {result!r}; return None for success, raise for failure"
        )


class HandlerThreads:
    """Threads for sync handlers. Quick handlers run several batches per hop between threads."""

    RUN_TARGET_S = 0.005
    RUN_MAX = 64

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="emberq-handler")
        self._average_s = self.RUN_TARGET_S  # begin with one batch per hop

    @property
    def run_length(self) -> int:
        """Batches that one hop should take: handlers that take long share nothing."""
        return max(1, min(self.RUN_MAX, int(self.RUN_TARGET_S / max(self._average_s, 1e-6))))

    async def run(self, handler: Handler, batches: Sequence[Batch]) -> list[Exception | None]:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, context.run, self._run, handler, batches)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, handler: Handler, batches: Sequence[Batch]) -> list[Exception | None]:
        outcomes = []
        for batch in batches:
            started_at = time.perf_counter()
            outcomes.append(handler.run(batch))
            took_s = time.perf_counter() - started_at
            # A slow one counts at once, quick ones slowly: nobody should wait behind a slow one.
            weight = 0.5 if took_s > self._average_s else 0.05
            self._average_s += (took_s - self._average_s) * weight
        return outcomes


def log_failure(handler: Handler, batch: Batch, error: Exception) -> None:
    """One line for what handlers raise on purpose, the trace for all else."""
    first = batch[0]
    if isinstance(error, ConsumeControl):
        log.info("message_not_consumed handler=%s message=%s reason=%s", handler.name, first, error)
    else:
        log.warning(
            "handler_failed handler=%s message=%s attempt=%d",
            handler.name,
            first,
            first.delivery_attempt,
            exc_info=error,
        )
