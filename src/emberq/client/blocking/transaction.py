"""A transaction for programs without a loop."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from emberq.client.aio import transactions as aio_transactions
from emberq.client.blocking.loop_thread import LoopThread
from emberq.client.core.message import Message, Selector, SendResult
from emberq.model.queue import MessageQueue


class Transaction:
    """Half messages that end together: with the block, or by `commit` or `rollback`."""

    def __init__(self, thread: LoopThread, aio: aio_transactions.Transaction) -> None:
        self._thread = thread
        self.aio = aio

    def send(
        self,
        message: Message | str,
        body: Any = None,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        ordering_key: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Store a message out of sight; takes what the producer's `send` takes, without a delay.

        Raises:
            MessageRefused, SendFailed, ClientClosed, TopicNotFound, NoNameServer, BrokerError
        """
        return self._thread.run(
            self.aio.send(
                message,
                body,
                tags=tags,
                keys=keys,
                properties=properties,
                ordering_key=ordering_key,
                queue=queue,
                selector=selector,
                timeout=timeout,
            )
        )

    def commit(self) -> None:
        """Let consumers see the messages. Nothing happens after the end."""
        self._thread.run(self.aio.commit())

    def rollback(self) -> None:
        """Drop the messages. Nothing happens after the end."""
        self._thread.run(self.aio.rollback())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.run(self.aio.commit() if kind is None else self.aio.rollback())
