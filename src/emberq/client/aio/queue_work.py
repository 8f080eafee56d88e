"""One queue that a consumer has: its cached messages and the loop that pulls more.

There is one outstanding pull per queue. Flow control counts messages, bytes and the span between
the oldest and the newest one: a handler that hangs must not fill the memory.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from emberq.client.aio.client import Client
from emberq.client.broker_failures import broker_failure
from emberq.client.core.process_queue import ProcessQueue
from emberq.client.core.received import ReceivedMessage, received_messages, wanted
from emberq.errors import EmberqError, RecordError, SubscriptionUnknown, SystemBusy
from emberq.model.queue import MessageQueue
from emberq.model.route import MASTER_ID
from emberq.model.subscription import TAG_EXPRESSION, Subscription
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command
from emberq.protocol.header_fields import from_fields
from emberq.protocol.headers.pull import PullMessage, PullMessageResponse

log = logging.getLogger(__name__)

COMMIT_BIT, SUSPEND_BIT, SUBSCRIPTION_BIT = 1, 2, 4
PAUSE_WHEN_FULL_S = 0.05
PAUSE_AFTER_ERROR_S = 1.0
PAUSE_AFTER_BUSY_S = 0.02
# The broker holds a pull this long; our patience must be longer.
HOLD_S = 15.0
PULL_TIMEOUT_S = 30.0


class FlowLimits(Struct, frozen=True, kw_only=True):
    """What one queue may have in memory."""

    count_max: int = 1_000
    size_max_bytes: int = 100 * 1024 * 1024
    span_max: int | None = 2_000  # None for orderly consumers
    pull_count: int = 32


class Consumption(Protocol):
    """What is done with pulled messages."""

    def submit(self, work: "QueueWork", messages: list[ReceivedMessage]) -> None: ...


class QueueWork:
    """A queue from its assignment to its loss."""

    def __init__(
        self,
        client: Client,
        group: str,
        queue: MessageQueue,
        offset: int,
        *,
        subscription: Callable[[], Subscription],
        limits: FlowLimits,
        commit_offset: Callable[[], int],
        note_offset: Callable[[int], None],
        consumption: Consumption,
        on_moved: Callable[["QueueWork", int], None],
        is_paused: Callable[[], bool],
        may_pull: Callable[["QueueWork"], bool] = lambda work: True,
        is_subscription_sent: bool = False,
    ) -> None:
        """`is_subscription_sent`: with every pull, for groups that heartbeats do not describe."""
        self.queue = queue
        # As users know it, without a namespace.
        self._shown_queue = replace(queue, topic=client.unwrap(queue.topic))
        self.messages: ProcessQueue[ReceivedMessage] = ProcessQueue()
        self.next_offset = offset
        self.pulled_at = time.monotonic()
        self.consumed_at = 0.0
        self.max_offset = 0
        self.locked_until = 0.0  # of orderly consumers
        self.leaving_since: float | None = None
        self._client = client
        self._group = group
        self._subscription = subscription
        self._limits = limits
        self._commit_offset = commit_offset
        self._note_offset = note_offset
        self._consumption = consumption
        self._on_moved = on_moved
        self._is_paused = is_paused
        self._may_pull = may_pull
        self._is_subscription_sent = is_subscription_sent
        self._broker_id = MASTER_ID
        self._outcome = ("empty", 0)  # of the last pull, for whoever measures
        self._has_room = asyncio.Event()
        self._is_waiting = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._client.spawn(self._pull_until_dropped(), f"pull-{self.queue.queue_id}")

    def drop(self) -> None:
        """The queue belongs to somebody else, or nobody, from now on."""
        self.messages.is_dropped = True
        if self._task is not None:
            self._task.cancel()

    def stop_pulling(self) -> None:
        """Pull no more; what is here is still consumed and committed."""
        if self._task is not None:
            self._task.cancel()

    def leave(self) -> None:
        """Pull and hand out no more; what a handler has already still counts."""
        if self.leaving_since is None:
            self.leaving_since = time.monotonic()
            self.stop_pulling()

    @property
    def is_leaving(self) -> bool:
        return self.leaving_since is not None

    @property
    def is_dropped(self) -> bool:
        return self.messages.is_dropped

    def made_room(self) -> None:
        """Messages were consumed: a pull that waits for room may go on."""
        if self._is_waiting:
            self._has_room.set()

    async def _pull_until_dropped(self) -> None:
        while not self.is_dropped:
            pause_s = self._pause_s()
            try:
                if pause_s is None:
                    pause_s = await self._measured_pull()
            except SystemBusy as error:
                log.debug("pull_refused queue=%s reason=%s", self.queue, error)
                pause_s = PAUSE_AFTER_BUSY_S
            except SubscriptionUnknown as error:
                log.debug("pull_too_early queue=%s reason=%s", self.queue, error)
                pause_s = PAUSE_AFTER_ERROR_S  # another member's heartbeat was faster than ours
            except (EmberqError, OSError) as error:
                log.warning("pull_failed queue=%s reason=%s", self.queue, error)
                self._client.refresh_soon(self.queue.topic)
                self._broker_id = MASTER_ID
                pause_s = PAUSE_AFTER_ERROR_S
            except Exception:
                # Never stop silently: what it was is in the log, and the next pull comes.
                log.exception("pull_broken queue=%s", self.queue)
                pause_s = PAUSE_AFTER_ERROR_S
            if pause_s:
                await self._wait(pause_s)

    def _pause_s(self) -> float | None:
        """How long to wait before the next pull; None: pull."""
        if self._is_paused() or not self._may_pull(self):
            self.pulled_at = time.monotonic()  # alive, only resting
            return PAUSE_AFTER_ERROR_S
        messages, limits = self.messages, self._limits
        if (
            len(messages) >= limits.count_max
            or messages.size_bytes >= limits.size_max_bytes
            or (limits.span_max is not None and messages.span > limits.span_max)
        ):
            self.pulled_at = time.monotonic()
            return PAUSE_WHEN_FULL_S
        return None

    async def _wait(self, pause_s: float) -> None:
        self._has_room.clear()
        self._is_waiting = True
        try:
            async with asyncio.timeout(pause_s):
                await self._has_room.wait()
        except TimeoutError:
            return
        finally:
            self._is_waiting = False

    async def _measured_pull(self) -> float | None:
        measures = self._client.measures
        if measures is None:
            return await self._pull()
        group, topic = map(self._client.unwrap, (self._group, self.queue.topic))
        started_at = time.monotonic()
        try:
            pause_s = await self._pull()
        except Exception:
            measures.pulled(group, topic, "failed", 0, time.monotonic() - started_at)
            raise
        measures.pulled(group, topic, *self._outcome, time.monotonic() - started_at)
        return pause_s

    async def _pull(self) -> float | None:
        subscription = self._subscription()
        self.pulled_at = time.monotonic()
        address = await self._client.broker_address(self.queue.broker_name, self._broker_id)
        answer = await self._client.connections.call(
            address, self._request(subscription), PULL_TIMEOUT_S
        )
        self.pulled_at = time.monotonic()
        if self.is_dropped:
            return None
        if answer.code == ResponseCode.SUCCESS:
            self._take(answer, subscription)
            return None
        if answer.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            self._outcome = ("empty", 0)
            self._move_on(_response(answer))
            if not len(self.messages):  # nothing in between was for us
                self._note_offset(self.next_offset)
            return None
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self._outcome = ("moved", 0)
            header = _response(answer)
            log.warning(
                "offset_moved queue=%s from=%d to=%d",
                self.queue,
                self.next_offset,
                header.next_begin_offset,
            )
            self._on_moved(self, header.next_begin_offset)
            return None
        raise broker_failure(answer, address)

    def _take(self, answer: Command, subscription: Subscription) -> None:
        header = _response(answer)
        try:
            found = received_messages(answer.body, self._shown_queue)
        except RecordError as error:
            # The same bytes would come again for ever; the broker's log keeps them.
            log.error("messages_unreadable queue=%s reason=%s", self.queue, error)  # noqa: TRY400
            self._move_on(header)
            return
        messages = wanted(found, subscription)
        for message in messages:
            message.min_offset, message.max_offset = header.min_offset, header.max_offset
        if self._client.namespace:
            for message in messages:
                message.topic = self._client.unwrap(message.topic)
        self._move_on(header)
        self._outcome = ("found", len(messages))
        fresh = self.messages.add(messages)
        if fresh:
            self._consumption.submit(self, fresh)

    def _move_on(self, header: PullMessageResponse) -> None:
        self.next_offset = header.next_begin_offset
        self.max_offset = header.max_offset
        self._broker_id = header.suggested_broker_id

    def _request(self, subscription: Subscription) -> Command:
        commit_offset = self._commit_offset()
        flags = SUSPEND_BIT
        if commit_offset > 0 and self._broker_id == MASTER_ID:
            flags |= COMMIT_BIT
        if self._is_subscription_sent:
            flags |= SUBSCRIPTION_BIT
        header = PullMessage(
            consumer_group=self._group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=self.next_offset,
            max_message_count=self._limits.pull_count,
            system_flag=flags,
            commit_offset=max(commit_offset, 0),
            suspend_timeout_ms=int(HOLD_S * 1000),
            subscription=subscription.expression if self._is_subscription_sent else None,
            subscription_version=subscription.version,
            expression_type=subscription.expression_type or TAG_EXPRESSION,
            target_broker_name=self.queue.broker_name,
        )
        return self._client.request(header)


def _response(answer: Command) -> PullMessageResponse:
    return from_fields(PullMessageResponse, answer.fields or {})
