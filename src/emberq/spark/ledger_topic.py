"""The ledger of batches in its topic: one queue on one broker, read by key.

Everything here is an official request, so it works with official brokers too.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar

from msgspec import Struct

from emberq.client.aio.at_hand import QUERY_COUNT
from emberq.client.aio.producer import Producer
from emberq.client.core.message import Message, SendStatus
from emberq.client.core.received import ReceivedMessage
from emberq.errors import ClientError, NoNameServer, RemotingError, SendFailed, SystemBusy
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import ResponseCode
from emberq.spark.batch_ledger import (
    AbortDecision,
    CommitDecision,
    Decision,
    Outcome,
    WorkSign,
    counted_signs,
    decode_decision,
    encode_decision,
    is_decided,
    is_held,
    outcome,
)
from emberq.spark.ledger_place import LEDGER_TOPIC, LedgerPlace
from emberq.spark.links import Link
from emberq.spark.row_sending import sent_again
from emberq.spark.sink_options import SinkOptions
from emberq.spark.staged_halves import Halves, decode_part, encode_part

__all__ = ["LEDGER_TOPIC", "LedgerTopic", "Progress"]

log = logging.getLogger(__name__)

T = TypeVar("T")

# Brokers index a message a moment after they store it.
VISIBLE_WITHIN_S = 30.0
_POLL_FIRST_S, _POLL_MAX_S = 0.005, 0.5
# An administrator may write down another broker: it is read again behind a failure, and after this
# time.
PLACE_KEPT_S = 300.0
_DONE, _CLAIM = "done", "claim"
# Of a message about work: which one it is, however often it is there.
SIGN_PROPERTY = "SPARK_SIGN"
_NOT_SAFE = (SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT)
_MS = 1000


class Decided(NamedTuple):
    """A decision that stands in the ledger; when it was about to be written, by the monotonic
    clock."""

    id: str
    began_s: float


class Progress(Struct, frozen=True):
    """How far a commit is carried out, and when somebody last worked on it."""

    parts_done: int
    worked_at_ms: int


class LedgerTopic:
    def __init__(self, link: Link, producer: Producer, options: SinkOptions) -> None:
        self._place = LedgerPlace(link, producer, options)
        self._producer = producer
        self._options = options
        self._queue: MessageQueue | None = None
        self._known_until_s = 0.0

    async def ready(self, *, is_new_writer: bool) -> None:
        """Have the ledger. A writer that was there before must find it.

        Raises:
            BrokerNotFound: the ledger's broker is away, or may be.
            ClientError: it cannot be said which ledger counts.
        """
        now_s = time.monotonic()
        if self._queue is not None and now_s < self._known_until_s:
            return
        try:
            self._queue = await self._place.find(is_new_writer=is_new_writer)
        except (NoNameServer, RemotingError) as error:
            if self._queue is None:
                raise
            log.warning("ledger_place_not_read broker=%s reason=%s", self._queue.broker_name, error)
        self._known_until_s = now_s + PLACE_KEPT_S

    # Decisions

    async def outcome(self, batch_key: str) -> Outcome:
        return outcome(await self._decisions(batch_key))

    async def commit(
        self,
        batch_key: str,
        writes: Sequence[str],
        parts: Sequence[Halves],
        rows: Mapping[str, int],
    ) -> Decided:
        """Decide that writes are the batch. Whether it holds is for `outcome_after` to say. `rows`
        are those of each topic."""
        decision_id = uuid.uuid4().hex
        queue = self._known_queue  # of all of it, wherever the ledger is said to be meanwhile
        for number, part in enumerate(parts):
            key = _part_key(batch_key, decision_id, number)
            await self._append(key, "part", encode_part(part), queue=queue)
        decision = CommitDecision(
            id=decision_id, writes=tuple(writes), parts=len(parts), rows=dict(rows)
        )
        began_s = time.monotonic()
        await self._append(batch_key, "commit", encode_decision(decision), queue=queue)
        return Decided(decision_id, began_s)

    async def abort(self, batch_key: str, writes: Sequence[str]) -> str:
        """Decide that writes are never committed, unless they are."""
        decision = AbortDecision(id=uuid.uuid4().hex, writes=tuple(writes))
        await self._append(batch_key, "abort", encode_decision(decision))
        return decision.id

    async def outcome_after(self, batch_key: str, decision_id: str) -> Outcome:
        """The outcome, when a decision and all before it can be seen.

        Raises:
            ClientError: it cannot be seen, though it is stored.
        """

        async def look() -> Outcome | None:
            found = await self._decisions(batch_key)
            return outcome(found) if is_decided(found, decision_id) else None

        return await self._seen(look, f"the decision {decision_id} about batch {batch_key}")

    async def _seen(self, look: Callable[[], Awaitable[T | None]], what: str) -> T:
        """What is stored, as soon as queries find it."""
        limit_s = VISIBLE_WITHIN_S + self._options.broker_wait_s
        pause_s = _POLL_FIRST_S
        try:
            async with asyncio.timeout(limit_s) as limit:
                while (found := await look()) is None:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _POLL_MAX_S)
        except TimeoutError:
            if not limit.expired():  # that of a call
                raise
            broker_name = self._known_queue.broker_name
            raise ClientError(
                f"{what} is stored in {LEDGER_TOPIC} on {broker_name}, and not found "
                f"by its key within {limit_s:g} s: the broker's index is behind",
                hint="The outcome is in the ledger: repeat the batch, and it is carried out",
            ) from None
        return found

    async def _decisions(self, batch_key: str) -> list[Decision]:
        return [decode_decision(message.body) for message in await self._all_messages(batch_key)]

    # Carrying a commit out

    async def part(self, batch_key: str, commit: CommitDecision, number: int) -> Halves:
        """Raises ClientError: the ledger has lost it."""
        key = _part_key(batch_key, commit.id, number)
        found = await self._messages(key)
        if not found:
            raise ClientError(f"{LEDGER_TOPIC} has no {key}: it expired, or the index is behind")
        return decode_part(found[0].body)

    async def note_done(self, batch_key: str, commit: CommitDecision, parts_done: int) -> None:
        await self._append(_done_key(batch_key, commit), _DONE, b"%d" % parts_done)

    async def progress(self, batch_key: str, commit: CommitDecision, lease_s: float) -> Progress:
        notes = await self._messages(_done_key(batch_key, commit))
        signs = counted_signs(await self._signs(batch_key, notes), lease_s * _MS)
        return Progress(
            max((int(note.body) for note in notes), default=0),
            signs[-1].stored_at_ms if signs else 0,
        )

    async def claim(
        self, batch_key: str, commit: CommitDecision, parts_done: int, lease_s: float
    ) -> bool:
        """Say that a commit is carried out here from now on. It holds if nobody has worked on it
        for so long, by the broker's clock: of several who say so at once, for the first."""
        sign_id = uuid.uuid4().hex
        counted = await self._signed(batch_key, commit, _CLAIM, parts_done, sign_id, lease_s)
        return any(sign.id == sign_id for sign in counted)

    async def resume(
        self, batch_key: str, commit: CommitDecision, parts_done: int, lease_s: float
    ) -> bool:
        """The same by a driver that repeats the batch: the driver before it is gone, so nobody has
        to wait for its lease to end. It holds unless a process that has claimed the batch is at
        work."""
        sign_id = uuid.uuid4().hex
        counted = await self._signed(batch_key, commit, _DONE, parts_done, sign_id, lease_s)
        return not is_held(counted, sign_id, lease_s * _MS)

    async def _signed(
        self,
        batch_key: str,
        commit: CommitDecision,
        tag: str,
        parts_done: int,
        sign_id: str,
        lease_s: float,
    ) -> list[WorkSign]:
        """Write a sign of work; all that count, up to this one at least."""
        key = _done_key(batch_key, commit)
        await self._append(key, tag, b"%d" % parts_done, properties={SIGN_PROPERTY: sign_id})

        async def is_seen() -> bool | None:
            return any(map(partial(_is_sign, sign_id), await self._messages(key))) or None

        await self._seen(is_seen, f"a message about the work on batch {batch_key}")
        notes = await self._all_messages(key)  # a claim may be far behind signs of work
        return counted_signs(await self._signs(batch_key, notes), lease_s * _MS)

    async def _signs(self, batch_key: str, notes: Sequence[ReceivedMessage]) -> list[WorkSign]:
        about_it = [*notes, *await self._messages(batch_key)]
        return [
            WorkSign(
                each.queue_offset,
                each.stored_at_ms,
                is_claim=each.tags == _CLAIM,
                id=each.properties.get(SIGN_PROPERTY, ""),
            )
            for each in about_it
        ]

    # Messages

    @property
    def _known_queue(self) -> MessageQueue:
        assert self._queue is not None  # `ready` was called
        return self._queue

    async def _append(
        self,
        key: str,
        tag: str,
        body: bytes,
        *,
        queue: MessageQueue | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """A message that is there twice says the same twice."""
        message = Message(LEDGER_TOPIC, body, keys=key, tags=tag, properties=properties or {})
        queue = queue or self._known_queue

        async def once() -> None:
            timeout_s = self._options.timeout_s
            result = await self._producer.send(message, queue=queue, timeout=timeout_s)
            if result.status in _NOT_SAFE:
                code = ResponseCode[result.status.name]
                raise SystemBusy(code, f"{key} is stored, and not safe in time", queue.broker_name)
            if result.status != "SEND_OK":
                raise SendFailed(f"the ledger's message {key} was stored as {result.status}", ())

        await self._again(once)

    async def _again(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return await sent_again(work, self._producer, LEDGER_TOPIC, self._options)
        except (ClientError, RemotingError):
            self._known_until_s = 0.0
            raise

    async def _messages(self, key: str) -> list[ReceivedMessage]:
        """The newest, of which brokers give so many, in the order of the queue, of which there is
        one: no other broker is asked."""
        found = await self._again(partial(self._query, key, None))
        return sorted(found, key=lambda message: message.queue_offset)

    async def _all_messages(self, key: str) -> list[ReceivedMessage]:
        """The same, and those that are older.

        Raises:
            ClientError: brokers do not tell all of them.
        """
        known: dict[int, ReceivedMessage] = {}
        end: datetime | None = None
        while True:
            found = await self._again(partial(self._query, key, end))
            count = len(known)
            known |= {message.queue_offset: message for message in found}
            if len(found) < QUERY_COUNT:
                return [known[offset] for offset in sorted(known)]
            if len(known) == count:  # times of the index are whole seconds
                raise ClientError(
                    f"{LEDGER_TOPIC} on {self._known_queue.broker_name} has more than "
                    f"{QUERY_COUNT} messages with the key {key} within a second, of which brokers "
                    f"tell {QUERY_COUNT}: what became of the batch is not known",
                    hint=f"Read the topic {LEDGER_TOPIC}: its messages with this key say so",
                )
            oldest_ms = min(message.stored_at_ms for message in found)
            end = datetime.fromtimestamp(oldest_ms / _MS, UTC)

    async def _query(self, key: str, end: datetime | None) -> list[ReceivedMessage]:
        broker_name = self._known_queue.broker_name
        return await self._producer.query_messages(
            LEDGER_TOPIC, key, end=end, is_complete=True, broker_name=broker_name
        )


def _is_sign(sign_id: str, note: ReceivedMessage) -> bool:
    return note.properties.get(SIGN_PROPERTY) == sign_id


def _part_key(batch_key: str, decision_id: str, number: int) -> str:
    return f"{batch_key}-{decision_id}-{number}"


def _done_key(batch_key: str, commit: CommitDecision) -> str:
    return f"{batch_key}-{commit.id}-done"
