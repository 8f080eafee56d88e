"""What became of a batch that is written as half messages. Pure.

Decisions about a batch stand in one queue, so they have an order, and the first one that holds
counts for everybody: drivers, drivers that were taken for dead, and whoever a broker asks. The
messages are described in docs/formats/sink-ledger.md.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from emberq.errors import ClientError, RecordError


class CommitDecision(
    Struct, frozen=True, kw_only=True, tag="commit", tag_field="kind", omit_defaults=True
):
    """These writes are the batch; where their half messages are stands in `parts` messages."""

    id: str
    writes: tuple[str, ...]
    parts: int
    # Of each topic: another write may bear its name by mistake, or a stream have gone back.
    rows: dict[str, int] = {}


class AbortDecision(Struct, frozen=True, kw_only=True, tag="abort", tag_field="kind"):
    """These writes will never be committed."""

    id: str
    writes: tuple[str, ...]


Decision = CommitDecision | AbortDecision


class Outcome(Struct, frozen=True, kw_only=True):
    """`commit` is None as long as nothing is committed."""

    commit: CommitDecision | None = None
    aborted: frozenset[str] = field(default_factory=frozenset)

    def is_committed(self, write: str) -> bool:
        return self.commit is not None and write in self.commit.writes

    def is_dropped(self, write: str) -> bool:
        """Whether it can never be committed any more."""
        is_other = self.commit is not None and write not in self.commit.writes
        return is_other or write in self.aborted


def outcome(decisions: Iterable[Decision]) -> Outcome:
    """What decisions come to, in the order of their queue: the first commit of which no write was
    aborted before it counts; nothing that comes later changes that."""
    aborted: set[str] = set()
    for decision in decisions:
        if isinstance(decision, AbortDecision):
            aborted.update(decision.writes)
        elif aborted.isdisjoint(decision.writes):
            return Outcome(commit=decision, aborted=frozenset(aborted))
    return Outcome(aborted=frozenset(aborted))


def is_decided(decisions: Collection[Decision], decision_id: str) -> bool:
    """Whether a decision, and so all before it, are among these."""
    return any(decision.id == decision_id for decision in decisions)


class WorkSign(Struct, frozen=True):
    """A message about a committed batch: somebody worked on it when it was stored. With a claim
    somebody would go on with the work of somebody else. `id` is the same of a message that is
    there twice, because nobody knew that it had been stored."""

    offset: int
    stored_at_ms: int
    is_claim: bool = False
    id: str = ""


def counted_signs(signs: Iterable[WorkSign], lease_ms: float) -> list[WorkSign]:
    """Those that count, in the order of their queue: a claim does if nobody had worked on the
    batch for so long, so of several at once the first does."""
    counted: list[WorkSign] = []
    for sign in sorted(signs, key=lambda each: each.offset):
        is_early = bool(counted) and sign.stored_at_ms - counted[-1].stored_at_ms < lease_ms
        if not (sign.is_claim and is_early):
            counted.append(sign)
    return counted


def is_held(counted: Sequence[WorkSign], sign_id: str, lease_ms: float) -> bool:
    """Whether a process that has claimed a batch was at work on it when a sign was stored."""
    own = next(sign for sign in counted if sign.id == sign_id)
    before = [sign for sign in counted if sign.offset < own.offset]
    if not any(sign.is_claim for sign in before):
        return False
    return own.stored_at_ms - before[-1].stored_at_ms < lease_ms


def difference(batch_key: str, commit: CommitDecision, rows: Mapping[str, int]) -> str:
    """What a repeated write has that was not committed, if its rows are others. One without rows
    has nothing to lose, and of older commits nobody knows."""
    if not rows or not commit.rows or rows == commit.rows:
        return ""
    return (
        f"{batch_key} was committed with {_told(commit.rows)}, and this write has "
        f"{_told(rows)}: none of these is written"
    )


def check_is_same_write(batch_key: str, commit: CommitDecision, rows: Mapping[str, int]) -> None:
    """That a write whose name is committed has the rows that were committed.

    Raises:
        ClientError: nothing of this write is stored.
    """
    told = difference(batch_key, commit, rows)
    if told:
        raise ClientError(
            told,
            hint="Give each write a sinkId of its own, made of query, output and number of the "
            "batch. If this is the same write and its source has changed, it is done",
        )


def _told(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count} rows for {topic}" for topic, count in sorted(rows.items()))


def encode_decision(decision: Decision) -> bytes:
    return msgspec.json.encode(decision)


def decode_decision(body: bytes) -> Decision:
    """Raises RecordError."""
    try:
        decision: Decision = msgspec.json.decode(body, type=Decision)
    except msgspec.DecodeError as error:
        raise RecordError(f"no decision about a batch: {error}") from None
    return decision
