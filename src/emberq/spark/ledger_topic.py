"""The ledger of batches in its topic: one queue on one broker, read by key.

Everything here is an official request, so it works with official brokers too.
"""

import asyncio
import uuid
from collections.abc import Mapping, Sequence

from msgspec import Struct

from emberq.client.aio.producer import Producer
from emberq.client.core.message import Message
from emberq.client.core.received import ReceivedMessage
from emberq.errors import ClientError, SendFailed
from emberq.model.queue import MessageQueue
from emberq.spark.batch_ledger import (
    AbortDecision,
    CommitDecision,
    Decision,
    Outcome,
    decode_decision,
    encode_decision,
    is_decided,
    outcome,
)
from emberq.spark.ledger_place import LEDGER_TOPIC, LedgerPlace
from emberq.spark.links import Link
from emberq.spark.row_sending import sent_again
from emberq.spark.sink_options import SinkOptions
from emberq.spark.staged_halves import Halves, decode_part, encode_part

__all__ = ["LEDGER_TOPIC", "LedgerTopic", "Progress"]

# Brokers index a message a moment after they store it.
VISIBLE_WITHIN_S = 30.0
_POLL_FIRST_S, _POLL_MAX_S = 0.005, 0.5


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

    async def ready(self, *, is_new_writer: bool) -> None:
        """Have the ledger. A writer that was there before must find it.

        Raises:
            BrokerNotFound: the ledger's broker is away, or may be.
            ClientError: it cannot be said which ledger counts.
        """
        if self._queue is None:
            self._queue = await self._place.find(is_new_writer=is_new_writer)

    # Decisions

    async def outcome(self, batch_key: str) -> Outcome:
        return outcome(await self._decisions(batch_key))

    async def commit(
        self,
        batch_key: str,
        writes: Sequence[str],
        parts: Sequence[Halves],
        rows: Mapping[str, int],
    ) -> str:
        """Decide that writes are the batch; returns the decision's id. Whether it holds is for
        `outcome_after` to say. `rows` are those of each topic, for a write that has a name."""
        decision_id = uuid.uuid4().hex
        for number, part in enumerate(parts):
            key = f"{batch_key}-{decision_id}-{number}"
            await self._append(key, "part", encode_part(part))
        decision = CommitDecision(
            id=decision_id, writes=tuple(writes), parts=len(parts), rows=dict(rows)
        )
        await self._append(batch_key, "commit", encode_decision(decision))
        return decision_id

    async def abort(self, batch_key: str, writes: Sequence[str]) -> str:
        """Decide that writes are never committed, unless they are."""
        decision = AbortDecision(id=uuid.uuid4().hex, writes=tuple(writes))
        await self._append(batch_key, "abort", encode_decision(decision))
        return decision.id

    async def outcome_after(self, batch_key: str, decision_id: str) -> Outcome:
        """The outcome, when a decision and all before it can be seen."""
        async with asyncio.timeout(VISIBLE_WITHIN_S + self._options.broker_wait_s):
            pause_s = _POLL_FIRST_S
            while not is_decided(found := await self._decisions(batch_key), decision_id):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _POLL_MAX_S)
        return outcome(found)

    async def _decisions(self, batch_key: str) -> list[Decision]:
        return [decode_decision(message.body) for message in await self._messages(batch_key)]

    # Carrying a commit out

    async def part(self, batch_key: str, commit: CommitDecision, number: int) -> Halves:
        """Raises ClientError: the ledger has lost it."""
        key = f"{batch_key}-{commit.id}-{number}"
        found = await self._messages(key)
        if not found:
            raise ClientError(f"{LEDGER_TOPIC} has no {key}: it expired, or the index is behind")
        return decode_part(found[0].body)

    async def note_done(self, batch_key: str, commit: CommitDecision, parts_done: int) -> None:
        await self._append(f"{batch_key}-{commit.id}-done", "done", b"%d" % parts_done)

    async def progress(self, batch_key: str, commit: CommitDecision) -> Progress:
        notes = await self._messages(f"{batch_key}-{commit.id}-done")
        decisions = await self._messages(batch_key)
        return Progress(
            max((int(note.body) for note in notes), default=0),
            max((message.stored_at_ms for message in (*notes, *decisions)), default=0),
        )

    # Messages

    async def _append(self, key: str, tag: str, body: bytes) -> None:
        """A message that is there twice says the same twice."""
        message = Message(LEDGER_TOPIC, body, keys=key, tags=tag)

        async def once() -> None:
            result = await self._producer.send(message, queue=self._queue)
            if result.status != "SEND_OK":
                raise SendFailed(f"the ledger's message {key} was stored as {result.status}", ())

        await sent_again(once, self._producer, LEDGER_TOPIC, self._options)

    async def _messages(self, key: str) -> list[ReceivedMessage]:
        """In the order of the queue, of which there is one: no other broker is asked."""
        assert self._queue is not None
        broker_name = self._queue.broker_name
        found = await sent_again(
            lambda: self._producer.query_messages(
                LEDGER_TOPIC, key, is_complete=True, broker_name=broker_name
            ),
            self._producer,
            LEDGER_TOPIC,
            self._options,
        )
        return sorted(found, key=lambda message: message.queue_offset)
