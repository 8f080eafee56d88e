"""Transactions: messages that consumers see only when their sender says so.

A half message is stored out of sight and ended by a request without an answer (37). If that gets
lost, or the sender with it, the broker asks any producer of the group (39). What this producer
decided itself it still knows; for everything else the user's `check` is asked.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self

from msgspec import Struct

from emberq.client.aio.client import Client
from emberq.client.aio.watched_sends import Send
from emberq.client.codecs import Codec
from emberq.client.core.message import Message, Selector, SendResult, SendStatus, message_of
from emberq.client.core.outgoing import Outgoing
from emberq.client.core.received import ReceivedMessage
from emberq.errors import (
    ClientClosed,
    ClientError,
    MessageRefused,
    ProtocolError,
    RecordError,
    RemotingError,
    SendFailed,
)
from emberq.model.queue import MessageQueue
from emberq.protocol.command import Command
from emberq.protocol.header_fields import from_fields
from emberq.protocol.headers.transactions import CheckTransactionState, EndTransaction
from emberq.record import property_names as names
from emberq.record.decode import decode_record
from emberq.record.message_id import parse_offset_id
from emberq.record.properties import format_properties
from emberq.record.system_flag import TransactionType

log = logging.getLogger(__name__)

# True: commit; False: roll back; None: not known yet, ask again.
Outcome = bool | None
Check = Callable[[ReceivedMessage], Outcome | Awaitable[Outcome]]
Execute = Callable[[SendResult], Outcome | Awaitable[Outcome]]

# Outcomes that are remembered for brokers that ask; the oldest go first.
OUTCOMES_MAX = 10_000
# Checks that run at once, and that wait for their turn; more are left to the broker's next try.
CHECKS_AT_ONCE = 4
CHECKS_WAITING_MAX = 2000
# Checks that are dropped are told together: a broker that asks much would fill logs as well.
DROPS_TOLD_EVERY_S = 10.0

_CODE_OF: dict[Outcome, TransactionType] = {
    True: TransactionType.COMMIT,
    False: TransactionType.ROLLBACK,
    None: TransactionType.NONE,
}


class Half(Struct, frozen=True):
    """A half message that is stored."""

    ready: Outgoing
    result: SendResult

    @property
    def message_id(self) -> str:
        return self.ready.message_id


class TransactionEnd(Struct, frozen=True, kw_only=True):
    """What a broker was told of a half message."""

    topic: str
    message_id: str
    # As requests carry them.
    properties: str
    broker_address: str
    transaction_id: str | None
    outcome: Outcome
    is_from_check: bool


class HalfSender(Protocol):
    """The producer's way to send half messages."""

    async def watched(self, messages: Sequence[Message], send: Send) -> Sequence[SendResult]: ...

    def half(self, message: Message) -> Outgoing:
        """Raises MessageRefused, ClientClosed."""

    async def send_half(
        self,
        ready: Outgoing,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        timeout: float | timedelta | None,
    ) -> SendResult: ...


class TransactionBook:
    """What one producer knows of its transactions, and its answers to brokers that ask."""

    def __init__(
        self,
        client: Client,
        wire_group: str,
        codec: Codec[Any],
        check: Check | None,
        *,
        on_end: Callable[[TransactionEnd], None],
    ) -> None:
        self._client = client
        self._on_end = on_end
        self._group = wire_group
        self._codec = codec
        self._check = check
        self._is_async = inspect.iscoroutinefunction(check)
        self._outcomes: dict[str, Outcome] = {}
        self._turn = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._checks = 0
        self._dropped = 0
        self._drops_told_at = -DROPS_TOLD_EVERY_S
        self._threads: ThreadPoolExecutor | None = None

    def note(self, message_id: str, outcome: Outcome) -> None:
        """None: under way; brokers that ask are told to ask again."""
        self._outcomes.pop(message_id, None)
        self._outcomes[message_id] = outcome
        if len(self._outcomes) > OUTCOMES_MAX:
            del self._outcomes[next(iter(self._outcomes))]

    def leave_open(self, message_id: str) -> None:
        """Brokers that ask are answered by the user's check from now on."""
        self._outcomes.pop(message_id, None)

    async def end(self, half: Half, outcome: bool) -> None:
        """Tell the broker. A failure is logged only: the broker will ask."""
        self.note(half.message_id, outcome)
        broker_name = half.result.queue.broker_name
        try:
            self._client.check_running()
            _, log_offset = parse_offset_id(half.result.offset_message_id)
            header = EndTransaction(
                producer_group=self._group,
                half_queue_offset=half.result.queue_offset,
                commit_log_offset=log_offset,
                commit_or_rollback=_CODE_OF[outcome],
                message_id=half.message_id,
                transaction_id=half.result.transaction_id,
                topic=half.ready.topic,
                target_broker_name=broker_name,
            )
            address = await self._client.broker_address(broker_name)
            await self._client.connections.send_oneway(address, self._client.request(header))
            self._on_end(
                TransactionEnd(
                    topic=half.result.queue.topic,
                    message_id=half.message_id,
                    properties=half.ready.properties,
                    broker_address=address,
                    transaction_id=half.result.transaction_id,
                    outcome=outcome,
                    is_from_check=False,
                )
            )
        except (RemotingError, ClientError, RecordError) as error:
            log.warning(
                "transaction_end_unsent broker=%s message=%s reason=%s",
                broker_name,
                half.message_id,
                error,
            )

    def answer_soon(self, request: Command, address: str) -> None:
        """A broker asks how a transaction ended."""
        if self._checks >= CHECKS_WAITING_MAX:
            self._note_dropped(address)
            return
        self._checks += 1
        task = self._client.spawn(self._answer(request, address), "transaction-check")
        task.add_done_callback(self._answered)

    def _note_dropped(self, address: str) -> None:
        self._dropped += 1
        now = asyncio.get_running_loop().time()
        if now - self._drops_told_at >= DROPS_TOLD_EVERY_S:
            log.warning(
                "transaction_check_dropped broker=%s waiting=%d count=%d",
                address,
                self._checks,
                self._dropped,
            )
            self._dropped, self._drops_told_at = 0, now

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    def _answered(self, done: "asyncio.Task[None]") -> None:
        self._checks -= 1

    async def _answer(self, request: Command, address: str) -> None:
        try:
            asked = from_fields(CheckTransactionState, request.fields or {})
            record = decode_record(request.body)
        except (ProtocolError, RecordError) as error:
            log.warning("transaction_check_unreadable broker=%s reason=%s", address, error)
            return
        topic = self._client.unwrap(record.topic)
        message = ReceivedMessage(
            record, MessageQueue(asked.target_broker_name or "", record.queue_id, topic), topic
        )
        message_id = message.message_id
        remark: str | None = None
        if message_id in self._outcomes:
            outcome = self._outcomes[message_id]
        elif self._check is None:
            log.warning(
                "transaction_check_unexpected broker=%s message=%s hint=%s",
                address,
                message_id,
                "give the producer check=",
            )
            return
        else:
            outcome, remark = await self._asked_user(message)
        header = EndTransaction(
            producer_group=self._group,
            half_queue_offset=asked.half_queue_offset,
            commit_log_offset=asked.commit_log_offset,
            commit_or_rollback=_CODE_OF[outcome],
            is_from_check=True,
            message_id=message_id,
            transaction_id=asked.transaction_id,
            topic=record.topic,
            target_broker_name=asked.target_broker_name,
        )
        answer = self._client.request(header)
        answer.remark = remark
        try:
            await self._client.connections.send_oneway(address, answer)
        except RemotingError as error:
            log.warning("transaction_end_unsent broker=%s reason=%s", address, error)
            return
        self._on_end(
            TransactionEnd(
                topic=topic,
                message_id=message_id,
                properties=format_properties(message.properties),
                broker_address=address,
                transaction_id=asked.transaction_id,
                outcome=outcome,
                is_from_check=True,
            )
        )

    async def _asked_user(self, message: ReceivedMessage) -> tuple[Outcome, str | None]:
        """The outcome; or not known, and why."""
        async with self._turn:
            try:
                message.value = self._codec.decode(message.body)
                outcome = await self._run_check(message)
            except Exception as error:
                log.exception("transaction_check_failed message=%s", message)
                return None, f"{type(error).__name__}: {error}"
        if outcome is None or isinstance(outcome, bool):
            return outcome, None
        log.error("transaction_check_failed message=%s returned=%r", message, outcome)
        return None, f"check returned {outcome!r}, expected True, False or None"

    async def _run_check(self, message: ReceivedMessage) -> object:
        assert self._check is not None
        if self._is_async:
            result = self._check(message)
            return await result if inspect.isawaitable(result) else result
        if self._threads is None:
            self._threads = ThreadPoolExecutor(CHECKS_AT_ONCE, thread_name_prefix="emberq-check")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._check, message)


class Transaction:
    """Half messages that end together: with the block, or by `commit` or `rollback`."""

    def __init__(self, book: TransactionBook, sender: HalfSender) -> None:
        self._book = book
        self._sender = sender
        self._halves: list[Half] = []
        self._has_ended = False

    async def send(
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
            MessageRefused: it cannot be sent at all, or it has a delay.
            SendFailed: also if it was stored with less safety than configured.
            ClientClosed: the transaction has ended.
            TopicNotFound, NoNameServer, BrokerError
        """
        if self._has_ended:
            raise ClientClosed("the transaction has ended", hint="Begin another one")
        whole = message_of(message, body, tags, keys, properties, ordering_key=ordering_key)
        if whole.delay is not None:
            raise MessageRefused("a message of a transaction cannot be delayed")

        async def send(messages: Sequence[Message]) -> list[SendResult]:
            return [await self._send(messages[0], queue, selector, timeout)]

        [result] = await self._sender.watched([whole], send)
        return result

    async def _send(
        self,
        whole: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        timeout: float | timedelta | None,
    ) -> SendResult:
        ready = self._sender.half(whole)
        self._book.note(ready.message_id, None)
        try:
            result = await self._sender.send_half(ready, whole, queue, selector, timeout)
        except BaseException:
            # It may be stored all the same; whoever asks is told to drop it.
            self._book.note(ready.message_id, False)
            raise
        half = Half(ready, result)
        if result.status is not SendStatus.SEND_OK:
            await self._book.end(half, False)
            raise SendFailed(f"{ready.message_id} was stored as {result.status}: rolled back", ())
        self._halves.append(half)
        return result

    async def decide(self, execute: Execute, result: SendResult) -> None:
        """End as `execute` says; what it does not know is left to the check.

        Raises:
            ClientError: it returned something else.
            What `execute` raises.
        """
        try:
            if inspect.iscoroutinefunction(execute):
                outcome = await execute(result)
            else:
                outcome = await asyncio.to_thread(execute, result)
        except BaseException:
            self._leave_open()
            raise
        if outcome is not None and not isinstance(outcome, bool):
            self._leave_open()
            raise ClientError(f"execute returned {outcome!r}, expected True, False or None")
        if outcome is None:
            self._leave_open()
        else:
            await self._end(outcome)

    def _leave_open(self) -> None:
        self._has_ended = True
        for half in self._halves:
            self._book.leave_open(half.message_id)

    async def commit(self) -> None:
        """Let consumers see the messages. Nothing happens after the end."""
        await self._end(True)

    async def rollback(self) -> None:
        """Drop the messages. Nothing happens after the end."""
        await self._end(False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end(kind is None)

    async def _end(self, outcome: bool) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        for half in self._halves:
            # All are decided before the first is sent: whoever asks meanwhile is told.
            self._book.note(half.message_id, outcome)
        for half in self._halves:
            await self._book.end(half, outcome)


def half_properties(wire_group: str) -> tuple[tuple[str, str], ...]:
    return (names.TRANSACTION_PREPARED, "true"), (names.PRODUCER_GROUP, wire_group)
