"""Blocking consumers: same names and arguments as in `emberq.aio`."""

import signal
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from emberq.client.aio import pull_consumer as aio_pull
from emberq.client.aio import push_consumer as aio_push
from emberq.client.aio.handlers import HandlerFunction
from emberq.client.aio.lag import Lag
from emberq.client.aio.pull_consumer import (
    CACHED_MAX,
    COMMIT_INTERVAL_S,
    POLL_COUNT,
    POLL_TIMEOUT_S,
)
from emberq.client.aio.push_consumer import CONSUME_TIMEOUT_S, WORKERS, RebalanceListener
from emberq.client.aio.queue_work import FlowLimits
from emberq.client.blocking.client import Client
from emberq.client.blocking.life import Part
from emberq.client.core.allocation import AllocationStrategy
from emberq.client.core.received import ReceivedMessage
from emberq.client.hooks import ConsumeHook
from emberq.model.queue import MessageQueue
from emberq.model.subscription import ConsumeFromWhere, MessageModel

F = TypeVar("F", bound=HandlerFunction)


class PushConsumer(Part):
    """A member of a consumer group; handlers run in threads, async ones on the client's loop."""

    def __init__(
        self,
        group: str,
        *,
        client: Client | None = None,
        name_server: str | Sequence[str] | None = None,
        ordered: bool = False,
        message_model: MessageModel | str = MessageModel.CLUSTERING,
        consume_from_where: ConsumeFromWhere | str = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        consume_timestamp: datetime | None = None,
        workers: int = WORKERS,
        max_reconsume_times: int | None = None,
        consume_timeout: float | timedelta = CONSUME_TIMEOUT_S,
        allocation: AllocationStrategy | None = None,
        flow: FlowLimits | None = None,
        offsets_folder: Path | None = None,
        on_rebalance: RebalanceListener | None = None,
        trace: bool | str = False,
        hooks: Sequence[ConsumeHook] = (),
    ) -> None:
        """The arguments are those of `emberq.aio.PushConsumer`."""
        super().__init__(client or Client(name_server), is_client_ours=client is None)
        self._stop_wanted = threading.Event()
        self.aio: aio_push.PushConsumer = aio_push.PushConsumer(
            group,
            client=self.client.aio,
            ordered=ordered,
            message_model=message_model,
            consume_from_where=consume_from_where,
            consume_timestamp=consume_timestamp,
            workers=workers,
            max_reconsume_times=max_reconsume_times,
            consume_timeout=consume_timeout,
            allocation=allocation,
            flow=flow,
            offsets_folder=offsets_folder,
            on_rebalance=on_rebalance,
            trace=trace,
            hooks=hooks,
        )

    def subscribe(
        self,
        topic: str,
        *,
        tags: str | None = None,
        sql: str | None = None,
        codec: Any = bytes,
        batch_size: int = 1,
    ) -> Callable[[F], F]:
        """Decorate a function that handles messages of a topic."""
        return self.aio.subscribe(topic, tags=tags, sql=sql, codec=codec, batch_size=batch_size)

    def add_handler(
        self,
        topic: str,
        function: HandlerFunction,
        *,
        tags: str | None = None,
        sql: str | None = None,
        codec: Any = bytes,
        batch_size: int = 1,
    ) -> None:
        """The same without a decorator. Raises ConfigError."""
        self.aio.add_handler(
            topic, function, tags=tags, sql=sql, codec=codec, batch_size=batch_size
        )

    def reply(
        self,
        topic: str,
        *,
        tags: str | None = None,
        sql: str | None = None,
        codec: Any = bytes,
    ) -> Callable[[F], F]:
        """Decorate a function whose return value is the reply to a request; None: no reply."""
        return self.aio.reply(topic, tags=tags, sql=sql, codec=codec)

    def run(self) -> None:
        """Consume until SIGINT, SIGTERM or `stop`, then finish what is under way."""
        self._stop_wanted.clear()
        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, self._signalled)
        try:
            with self:
                self._stop_wanted.wait()
        finally:
            for number_before, handler in before.items():
                signal.signal(number_before, handler)

    def stop(self) -> None:
        """Make `run` return; may be called from a handler."""
        self._stop_wanted.set()

    def settled(self) -> None:
        """Return when this member has its share of queues."""
        self._thread.run(self.aio.settled())

    def pause(self) -> None:
        """Pull no more; what is here is still consumed."""
        self.aio.pause()

    def resume(self) -> None:
        self._thread.run(self._resume())

    @property
    def queues(self) -> list[MessageQueue]:
        """The share of this member."""
        return self.aio.queues

    def lag(self) -> list[Lag]:
        """How far each queue is behind, by what the last pull said."""
        return self.aio.lag()

    async def _resume(self) -> None:
        self.aio.resume()  # wakes tasks of the loop, so it belongs on its thread

    def _ended(self) -> None:
        self._stop_wanted.set()
        super()._ended()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._stop_wanted.set()


class PullConsumer(Part):
    """Asks for messages when the program wants them; iterate over it, or call `poll`."""

    def __init__(
        self,
        group: str,
        *,
        client: Client | None = None,
        name_server: str | Sequence[str] | None = None,
        codec: Any = bytes,
        auto_commit: bool = True,
        auto_commit_interval: float | timedelta = COMMIT_INTERVAL_S,
        consume_from_where: ConsumeFromWhere | str = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        consume_timestamp: datetime | None = None,
        allocation: AllocationStrategy | None = None,
        flow: FlowLimits | None = None,
        cached_max: int = CACHED_MAX,
        trace: bool | str = False,
    ) -> None:
        """The arguments are those of `emberq.aio.PullConsumer`."""
        super().__init__(client or Client(name_server), is_client_ours=client is None)
        self.aio: aio_pull.PullConsumer = aio_pull.PullConsumer(
            group,
            client=self.client.aio,
            codec=codec,
            auto_commit=auto_commit,
            auto_commit_interval=auto_commit_interval,
            consume_from_where=consume_from_where,
            consume_timestamp=consume_timestamp,
            allocation=allocation,
            flow=flow,
            cached_max=cached_max,
            trace=trace,
        )

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Read a share of a topic's queues. Raises ConfigError."""
        self._thread.run(self.aio.subscribe(topic, tags=tags, sql=sql))

    def assign(self, queues: Collection[MessageQueue], *, tags: str | None = None) -> None:
        """Read just these queues. Raises ConfigError."""
        self._thread.run(self.aio.assign(queues, tags=tags))

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic. Raises TopicNotFound, NoNameServer."""
        return self._thread.run(self.aio.queues(topic))

    @property
    def assignment(self) -> list[MessageQueue]:
        """What this consumer reads."""
        return self.aio.assignment

    def lag(self) -> list[Lag]:
        """How far each queue is behind, by what the last pull said."""
        return self.aio.lag()

    def settled(self) -> None:
        """Return when this member has its share."""
        self._thread.run(self.aio.settled())

    def poll(
        self, count: int = POLL_COUNT, *, timeout: float | timedelta = POLL_TIMEOUT_S
    ) -> list[ReceivedMessage]:
        """The next messages, none if none came in time. What the last poll gave is finished now."""
        return self._thread.run(self.aio.poll(count, timeout=timeout))

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Messages one by one, for ever; each is finished when the loop asks for the next."""
        while True:
            yield from self.poll(1)

    def commit(self) -> None:
        """Everything that was handed out is finished: store it."""
        self._thread.run(self.aio.commit())

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset at the broker; None: it has none."""
        return self._thread.run(self.aio.committed(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read on from another offset. Raises ClientError."""
        self._thread.run(self.aio.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        self._thread.run(self.aio.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        self._thread.run(self.aio.seek_to_end(queue))

    def offset_for_time(self, queue: MessageQueue, moment: datetime) -> int:
        """The first message stored at or after a moment."""
        return self._thread.run(self.aio.offset_for_time(queue, moment))

    def pause(self, *queues: MessageQueue) -> None:
        """Pull these no more."""
        self.aio.pause(*queues)

    def resume(self, *queues: MessageQueue) -> None:
        self._thread.run(self._resume(queues))

    async def _resume(self, queues: Sequence[MessageQueue]) -> None:
        self.aio.resume(*queues)
