"""All of a batch or nothing: tasks stage half messages, the driver's commit makes them visible.

The commit counts from the moment in which it stands in the ledger. Whoever comes later, the same
driver, another one that repeats the batch, or a process that a broker asks, carries it out to its
end and changes nothing about it. docs/decisions/0022-sink-deliveries.md.
"""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from emberq.client.aio.producer import Producer
from emberq.client.aio.transactions import half_properties
from emberq.client.core.message import Message
from emberq.client.core.received import ReceivedMessage, received_messages
from emberq.errors import (
    BrokerError,
    ClientError,
    EmberqError,
    RemotingError,
    SendFailed,
    SystemBusy,
)
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import ResponseCode
from emberq.protocol.headers.queries import ViewMessageById
from emberq.protocol.headers.transactions import EndTransaction
from emberq.record.message_id import parse_offset_id
from emberq.record.system_flag import TransactionType
from emberq.spark.batch_lease import BatchLease, LeaseLost
from emberq.spark.batch_ledger import CommitDecision, Outcome, check_is_same_write, difference
from emberq.spark.ledger_topic import LedgerTopic, Progress
from emberq.spark.links import Link, link_to, retried
from emberq.spark.outgoing_columns import rows_by_topic
from emberq.spark.outgoing_rows import WRITE_PROPERTY, RowMessages
from emberq.spark.row_rules import RowRules
from emberq.spark.row_sending import (
    ByQueue,
    RowSending,
    Task,
    producer_of,
    sent_again,
    side_by_side,
)
from emberq.spark.sink_options import SinkOptions
from emberq.spark.staged_halves import Halves, QueueHalves, Staged, parts_of

log = logging.getLogger(__name__)

GROUP_SUFFIX = "-transactions"
IN_FLIGHT_MAX = 64
BUSY_PAUSE_S, BUSY_PAUSE_MAX_S = 0.1, 5.0
# How brokers that cannot end a half message now say so with code 1, which stands for much else.
_PASSING_REMARKS = ("page cache busy", "mapped file failed", "UNKNOWN_ERROR")
# As long as somebody may be carrying a commit out, brokers that ask are told to ask again: two
# that end the same half message at once would have official brokers deliver it twice.
LEASE_S = 120.0
# How often a driver looks whether a batch that others carry out is visible.
OTHER_HANDS_LOOK_S = 1.0
# Brokers ask about every half message: a batch that is open is looked up once in this time.
OPEN_FOR_S = 0.5
OPEN_BATCHES_MAX = 1000
# A write that nobody has committed or aborted after this time has lost its driver.
ABANDONED_AFTER_S = 3600.0
# Brokers tell 32 messages of a key that came within one second: a batch has as many such writes as
# it had pieces, and each is aborted by itself.
ABORT_PAUSE_S = 0.1

_deliveries: dict[tuple[int, SinkOptions], "_Batches"] = {}  # by link and options


class TransactionalDelivery:
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, batches: Iterator[Any], task: Task) -> Staged:
        """Stage rows out of sight. Raises MessageRefused, SendFailed, BrokerError."""
        options = self._options
        has_name = options.sink_id is not None
        link, known = self._batches()
        batch_key, found = link.wait(known.begun(task, has_name=has_name))
        staged = Staged(batch_key=batch_key)
        if found.commit is not None:
            log.info("batch_is_committed batch=%s partition=%d", batch_key, task.partition)
            if found.commit.rows:  # to be compared with
                staged.rows.update(rows_by_topic(batches, options.topic))
            return staged
        # As long as that of each write will be.
        mark = (WRITE_PROPERTY, f"{batch_key}/{_new_write()}")
        rules = RowRules(
            size_max_bytes=options.send_max_bytes,
            is_batched=False,
            more_properties=(mark, *half_properties(link.client.wrap(_group_of(options)))),
        )
        rows = RowMessages(options.topic, task.id_prefix if options.has_ids else None, rules)

        async def send(by_queue: ByQueue) -> None:
            await known.stage(by_queue, staged)

        try:
            RowSending(rows, link, known.producer, task, options, send).run(batches)
        except BaseException:
            # Nobody will ever commit these writes: their ids stay here.
            try:
                link.run(lambda: known.roll_back(staged.halves), 0)
            except EmberqError as error:  # the first failure is what its user wants to know
                log.warning("halves_left_open reason=%s", error)
            raise
        staged.count_rows()
        return staged

    def commit(self, results: Sequence[Staged]) -> None:
        """Make the batch visible, once, whoever began it. Raises ClientError, RemotingError."""
        if results:
            link, known = self._batches()
            link.wait(known.commit(results, has_name=self._options.sink_id is not None))

    def abort(self, results: Sequence[Staged]) -> None:
        """Drop what was staged, unless it is committed: Spark also calls this when the commit
        failed, on its way or behind it."""
        if results:
            link, known = self._batches()
            link.wait(known.abort(results))

    def _batches(self) -> tuple[Link, "_Batches"]:
        link = link_to(self._options.connection)
        return link, link.run(lambda: _batches_of(link, self._options), self._options.retries)


async def _batches_of(link: Link, options: SinkOptions) -> "_Batches":
    key = (id(link), replace(options, sink_id=None))  # names of batches are no end
    known = _deliveries.get(key)
    if known is None:
        known = _deliveries[key] = _Batches(replace(options, sink_id=None))
    await known.start(link)
    return known


def _group_of(options: SinkOptions) -> str:
    return options.producer_group + GROUP_SUFFIX


def _new_write() -> str:
    return uuid.uuid4().hex


class _Batches:
    """Batches of this process; lives on the link's loop."""

    producer: Producer
    ledger: LedgerTopic

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._is_ready = False
        self._open: dict[str, float] = {}  # batch → until when brokers are told to ask again
        self._taken_over: dict[str, asyncio.Task[None]] = {}  # by batch
        self._aborting = asyncio.Lock()

    async def start(self, link: Link) -> None:
        """Begin; a second call does nothing."""
        producer = await producer_of(link, _group_of(self._options), self.check)
        if not self._is_ready:
            self.producer = producer
            self.ledger = LedgerTopic(link, producer, self._options)
            self._is_ready = True

    async def begun(self, task: Task, *, has_name: bool) -> tuple[str, Outcome]:
        """What a task's batch is called in the ledger, and what became of it. A name that a user
        chose is good for one write to each topic."""
        topic = self._options.topic
        if not has_name or topic is None:
            return task.batch_key, await self.outcome(task.batch_key, is_new=task.batch == 0)
        batch_key = f"{task.writer}@{topic}-{task.batch}"
        found = await self.outcome(batch_key, is_new=task.batch == 0)
        if found.commit is None:
            # Names had no topic once; such a commit says nothing about rows.
            old = await self.ledger.outcome(task.batch_key)
            if old.commit is not None and not old.commit.rows:
                part = await self.ledger.part(task.batch_key, old.commit, 0)
                if any(queue.topic == topic for queue in part):
                    return task.batch_key, old
        return batch_key, found

    async def outcome(self, batch_key: str, *, is_new: bool) -> Outcome:
        options = self._options
        await retried(
            lambda: self.ledger.ready(is_new_writer=is_new), options.retries, options.broker_wait_s
        )
        return await self.ledger.outcome(batch_key)

    # Tasks

    async def stage(self, by_queue: ByQueue, staged: Staged) -> None:
        """Store messages out of sight. After a failure all of them are stored again: what nobody
        knows of belongs to a write that is never committed."""

        async def attempt() -> None:
            write, halves = _new_write(), Halves()
            try:
                await self._stage(by_queue, f"{staged.batch_key}/{write}", halves)
            except BaseException:  # also when its task is called off
                await self.roll_back(halves)
                raise
            staged.add(write, halves)

        if by_queue:
            topic = next(iter(by_queue)).topic
            await sent_again(attempt, self.producer, topic, self._options)

    async def _stage(self, by_queue: ByQueue, mark: str, halves: Halves) -> None:
        """Side by side; note where they are, in their order, and those that are stored also when
        others fail."""
        for queue, own in by_queue.items():
            places: dict[int, tuple[int, int]] = {}
            try:
                await self._stage_queue(queue, own, mark, places)
            finally:
                own_halves = halves.setdefault(queue, QueueHalves())
                for number in sorted(places):
                    own_halves.add(*places[number])

    async def _stage_queue(
        self,
        queue: MessageQueue,
        messages: Sequence[Message],
        mark: str,
        places: dict[int, tuple[int, int]],
    ) -> None:
        turns = asyncio.Semaphore(IN_FLIGHT_MAX)

        async def stage(number: int, message: Message) -> None:
            properties = {**message.properties, WRITE_PROPERTY: mark}
            async with turns:
                marked = replace(message, properties=properties)
                places[number] = await self._stage_one(queue, marked)

        await side_by_side(stage(number, message) for number, message in enumerate(messages))

    async def roll_back(self, halves: Halves) -> None:
        """As far as that can be done now: brokers ask about the others."""
        try:
            await self.end_all(halves)
        except EmberqError as error:
            log.warning("halves_left_open reason=%s", error)

    async def _stage_one(self, queue: MessageQueue, message: Message) -> tuple[int, int]:
        """Only a broker that says "busy" is asked again: a half message that is stored without an
        answer would stand beside the second one."""
        sender = self.producer.halves
        pause_s = BUSY_PAUSE_S
        for attempt in range(self._options.retries + 1):
            ready = sender.half(message)
            try:
                result = await sender.send_half(
                    ready, message, queue, None, self._options.timeout_s
                )
            except SystemBusy:
                if attempt == self._options.retries:
                    raise
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, BUSY_PAUSE_MAX_S)
                continue
            if result.status != "SEND_OK":
                raise SendFailed(f"{ready.message_id} was stored as {result.status}", ())
            _, log_offset = parse_offset_id(result.offset_message_id)
            return log_offset, result.queue_offset
        raise AssertionError("unreachable")

    # The driver

    async def commit(self, staged: Sequence[Staged], *, has_name: bool) -> None:
        batch_key = staged[0].batch_key
        rows = sum((each.rows for each in staged), Counter[str]())
        found = await self.outcome(batch_key, is_new=False)
        if found.commit is not None:
            await self._carry_out_other(batch_key, found, staged)
            _compare(batch_key, found.commit, rows, has_name=has_name)
            return
        parts = list(parts_of(staged))
        if not parts:
            return  # no rows
        decided = await self.ledger.commit(batch_key, _writes(staged), parts, rows)
        found = await self.ledger.outcome_after(batch_key, decided.id)
        if found.commit is None:
            raise ClientError(f"batch {batch_key} was given up before its commit")
        if found.commit.id == decided.id:
            await self._carry_out(batch_key, found.commit, parts, signed_at_s=decided.began_s)
        else:  # another driver was first
            await self._carry_out_other(batch_key, found, staged)
            _compare(batch_key, found.commit, rows, has_name=has_name)

    async def _carry_out_other(
        self, batch_key: str, found: Outcome, staged: Sequence[Staged]
    ) -> None:
        assert found.commit is not None
        await self._drop(staged, found)
        under_way = self._taken_over.get(batch_key)
        if under_way is not None:
            await asyncio.wait([under_way])
        await self._go_on(batch_key, found.commit)

    async def abort(self, staged: Sequence[Staged]) -> None:
        batch_key = staged[0].batch_key
        found = await self.outcome(batch_key, is_new=False)
        if found.commit is None:
            found = await self.ledger.outcome_after(
                batch_key, await self.ledger.abort(batch_key, _writes(staged))
            )
        await self._drop(staged, found)

    async def _drop(self, staged: Sequence[Staged], found: Outcome) -> None:
        """Roll back writes that the outcome leaves out."""
        for each in staged:
            if any(map(found.is_dropped, each.writes)):
                await self.end_all(each.halves)

    async def _carry_out(
        self,
        batch_key: str,
        commit: CommitDecision,
        parts: Sequence[Halves] = (),
        *,
        signed_at_s: float,
    ) -> None:
        """Make a committed batch visible, of which the ledger says since some time that it is in
        these hands. With `parts` at hand nobody has begun with it; else some of it may be visible
        already, and each half message is looked at before it is ended."""
        lease = BatchLease(self.ledger, batch_key, commit, lease_s=LEASE_S, signed_at_s=signed_at_s)
        try:
            await self._carry_out_parts(batch_key, commit, parts, lease)
        except LeaseLost:
            log.warning("lease_lost batch=%s", batch_key)
            await self._go_on(batch_key, commit)

    async def _carry_out_parts(
        self, batch_key: str, commit: CommitDecision, parts: Sequence[Halves], lease: BatchLease
    ) -> None:
        done = 0 if parts else (await self.ledger.progress(batch_key, commit, LEASE_S)).parts_done
        for number in range(done, commit.parts):
            if parts:
                part = parts[number]
            else:
                part = await self.ledger.part(batch_key, commit, number)
            async with lease.kept(number):
                await self._commit_part(part, lease, is_begun=not parts)
            await lease.sign(number + 1)

    async def _go_on(self, batch_key: str, commit: CommitDecision) -> None:
        """Carry out what was begun before. A process that a broker asked may be at it: that one is
        waited for."""
        seen: Progress | None = None
        next_try_s = 0.0
        while True:
            now_s = time.monotonic()
            progress = await self.ledger.progress(batch_key, commit, LEASE_S)
            if progress.parts_done >= commit.parts:
                return
            if seen is not None and progress != seen:
                # By the own clock: the broker's may be another.
                next_try_s = time.monotonic() + LEASE_S
            seen = progress
            if now_s >= next_try_s:
                if await self.ledger.resume(batch_key, commit, progress.parts_done, LEASE_S):
                    await self._carry_out(batch_key, commit, signed_at_s=now_s)
                    return
                log.info("batch_in_other_hands batch=%s", batch_key)
                next_try_s = time.monotonic() + LEASE_S
            await asyncio.sleep(OTHER_HANDS_LOOK_S)

    async def _commit_part(self, part: Halves, lease: BatchLease, *, is_begun: bool) -> None:
        """After a failure nobody knows which ends arrived."""

        async def attempt() -> None:
            nonlocal is_begun
            was_begun, is_begun = is_begun, True
            try:
                await self.end_all(part, lease=lease, is_begun=was_begun)
            except BrokerError as error:
                if not _is_passing(error):
                    raise
                raise SystemBusy(error.code, error.remark, error.broker) from error

        topic = next(iter(part)).topic
        await sent_again(attempt, self.producer, topic, self._options)

    # Ends

    async def end_all(
        self, halves: Halves, *, lease: BatchLease | None = None, is_begun: bool = False
    ) -> None:
        """Those of one queue one after the other, which is their order in it; queues side by side,
        a few at a time. Without a lease they are rolled back.

        Raises:
            LeaseLost: of some of them nobody knows here whether they are ended.
        """
        turns = asyncio.Semaphore(IN_FLIGHT_MAX)

        async def end(queue: MessageQueue, own: QueueHalves) -> None:
            async with turns:
                for log_offset, half_offset in zip(own.log_offsets, own.half_offsets, strict=True):
                    is_visible = is_begun and await self._is_visible(queue, log_offset)
                    if lease is not None:
                        lease.check()
                    is_commit = lease is not None and not is_visible
                    await self._end(queue, log_offset, half_offset, is_commit)

        await side_by_side(end(queue, own) for queue, own in halves.items())

    async def _end(
        self, queue: MessageQueue, log_offset: int, half_offset: int, is_commit: bool
    ) -> None:
        """Unlike producers, wait for the answer. It is sent as an answer to a check: brokers take
        that at any time."""
        client = self.producer.client
        kind = TransactionType.COMMIT if is_commit else TransactionType.ROLLBACK
        header = EndTransaction(
            producer_group=client.wrap(self.producer.group),
            half_queue_offset=half_offset,
            commit_log_offset=log_offset,
            commit_or_rollback=kind,
            is_from_check=True,
            message_id=str(log_offset),
            topic=client.wrap(queue.topic),
            target_broker_name=queue.broker_name,
        )
        await client.call_broker(queue.broker_name, header, timeout_s=self._options.timeout_s)

    async def _is_visible(self, queue: MessageQueue, log_offset: int) -> bool:
        """Whether a half message was ended before: its message is in its topic then."""
        client = self.producer.client
        answer = await client.call_broker(
            queue.broker_name, ViewMessageById(commit_log_offset=log_offset)
        )
        [half, *_] = received_messages(answer.body, queue)
        return await self._has(queue, half.message_id)

    async def _has(self, queue: MessageQueue, message_id: str) -> bool:
        """A half message ends on its own broker: that one is asked, whatever the route says."""
        found = await self.producer.query_messages(
            queue.topic, message_id, is_complete=True, broker_name=queue.broker_name or None
        )
        return any(message.message_id == message_id for message in found)

    # Brokers that ask

    async def check(self, half: ReceivedMessage) -> bool | None:
        """What becomes of a half message; None: nobody knows yet."""
        batch_key, _, write = half.properties.get(WRITE_PROPERTY, "").rpartition("/")
        if not self._is_ready:  # brokers ask as soon as they know the group
            return None
        if not batch_key or time.monotonic() < self._open.get(batch_key, 0.0):
            return None  # not one of a sink, or of a batch that was asked about just now
        try:
            known = await self._checked(half, batch_key, write)
        except (RemotingError, ClientError) as error:
            log.warning("half_unchecked message=%s reason=%s", half.message_id, error)
            known = None
        if known is None:
            if len(self._open) >= OPEN_BATCHES_MAX:
                self._open.clear()
            self._open[batch_key] = time.monotonic() + OPEN_FOR_S
        return known

    async def _checked(self, half: ReceivedMessage, batch_key: str, write: str) -> bool | None:
        found = await self.outcome(batch_key, is_new=False)
        age_s = time.time() - half.born_at_ms / 1000
        if not (found.commit or found.is_dropped(write)) and age_s > ABANDONED_AFTER_S:
            log.warning("write_abandoned batch=%s write=%s", batch_key, write)
            async with self._aborting:
                decision_id = await self.ledger.abort(batch_key, [write])
                await asyncio.sleep(ABORT_PAUSE_S)
            found = await self.ledger.outcome_after(batch_key, decision_id)
        if found.is_dropped(write):
            return False
        if found.commit is None:
            return None
        commit = found.commit
        progress = await self.ledger.progress(batch_key, commit, LEASE_S)
        if _is_at_work(progress):
            return None
        if progress.parts_done < commit.parts:
            # The driver is gone. Brokers do not ask often enough to finish a large batch message
            # by message, but once is enough to begin with all of it.
            self._take_over(batch_key, commit, progress.parts_done)
            return None
        # A broker has forgotten an end. What is visible must not be delivered again.
        return not await self._has(half.queue, half.message_id)

    def _take_over(self, batch_key: str, commit: CommitDecision, parts_done: int) -> None:
        if batch_key not in self._taken_over:
            work = self._finish(batch_key, commit, parts_done)
            task = self.producer.client.spawn(work, "spark-commit")
            self._taken_over[batch_key] = task
            task.add_done_callback(lambda _: self._taken_over.pop(batch_key))

    async def _finish(self, batch_key: str, commit: CommitDecision, parts_done: int) -> None:
        """Carry out what a driver has left, unless another process of the group is at it. After a
        failure somebody is asked again when the lease is over."""
        claimed_at_s = time.monotonic()
        if not await self.ledger.claim(batch_key, commit, parts_done, LEASE_S):
            self._open[batch_key] = time.monotonic() + LEASE_S
            return
        log.warning("batch_taken_over batch=%s parts=%d", batch_key, commit.parts - parts_done)
        await self._carry_out(batch_key, commit, signed_at_s=claimed_at_s)
        log.info("batch_finished batch=%s", batch_key)


def _is_at_work(progress: Progress) -> bool:
    """Whether somebody may be carrying the batch out."""
    return time.time() - progress.worked_at_ms / 1000 < LEASE_S


def _compare(
    batch_key: str, commit: CommitDecision, rows: Mapping[str, int], *, has_name: bool
) -> None:
    """What is repeated with what was committed. A stream cannot be given another name, and its
    plan may have changed since: so it goes on, and the log has what it has lost.

    Raises:
        ClientError: under this name another write is committed, and these rows are lost.
    """
    if has_name:
        check_is_same_write(batch_key, commit, rows)
    elif told := difference(batch_key, commit, rows):
        log.error("batch_is_another %s", told)


def _is_passing(error: BrokerError) -> bool:
    """Whether a broker that refuses an end will take it later."""
    is_passing = any(remark in error.remark for remark in _PASSING_REMARKS)
    return is_passing or error.code == ResponseCode.SERVICE_NOT_AVAILABLE


def _writes(staged: Sequence[Staged]) -> list[str]:
    return [write for each in staged for write in each.writes]
