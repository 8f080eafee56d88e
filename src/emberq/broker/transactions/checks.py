"""Rounds of checks: producers are asked (39) what became of half messages that nobody ended."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol, cast

from emberq.broker.config import BrokerConfig
from emberq.broker.durable import until_durable
from emberq.broker.members import Member
from emberq.broker.producers import Producers
from emberq.broker.transactions.half_ledger import HalfState
from emberq.broker.transactions.half_messages import (
    HALF_QUEUE_ID,
    Properties,
    asked_about,
    is_deliverable,
    parked,
    put_back,
    question_body,
)
from emberq.broker.transactions.half_queue import HalfQueue
from emberq.broker.transactions.verdicts import CheckLimits, Verdict, judge
from emberq.errors import RecordError, RemotingError
from emberq.model.system_topics import HALF_TOPIC, TRANSACTION_CHECK_MAX_TOPIC
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import new_request
from emberq.protocol.header_fields import to_fields
from emberq.protocol.headers.transactions import CheckTransactionState
from emberq.record.decode import decode_record
from emberq.record.host import PackedHost
from emberq.record.message_id import make_offset_id
from emberq.record.properties import decode_properties
from emberq.record.property_names import (
    PRODUCER_GROUP,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQUE_KEY,
)
from emberq.record.record import Record
from emberq.remoting.connection import Connection
from emberq.store.consume_queue import ENTRY
from emberq.store.message_store import MessageStore
from emberq.store.results import PutResult, PutStatus

log = logging.getLogger(__name__)

# Official brokers end a round after this time; the next one goes on where it ended.
ROUND_MAX_S = 60.0
WORK_PER_TURN_MAX_S = 0.002
# How often it is looked whether what is settled may be written down.
SETTLE_INTERVAL_S = 1.0
STOP_WAIT_MAX_S = 5.0
PARKED_QUEUE_COUNT = 1
# What the store says of a copy that it will never take: properties of the broker's own are added,
# for which the producer's may have left no room.
_NEVER_TAKEN = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


class TopicMaker(Protocol):
    """`Topics`, as far as it is needed."""

    def create_if_absent(self, name: str, queue_count: int) -> TopicConfig: ...


class TransactionChecks:
    """One service per broker; lives on the loop's thread."""

    def __init__(
        self,
        store: MessageStore,
        halves: HalfQueue,
        producers: Producers,
        topics: TopicMaker,
        *,
        config: Callable[[], BrokerConfig],
        kept_hours: Callable[[], int],
        store_host: PackedHost,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._halves = halves
        self._producers = producers
        self._topics = topics
        self._config = config
        self._kept_hours = kept_hours
        self._store_host = store_host
        self._now_ms = now_ms

    async def run(self) -> None:
        """Check until cancelled."""
        try:
            await self._halves.load()
            began = time.monotonic()
            while True:
                interval_s = self._config().transaction_check_interval / 1000
                rest_s = began + interval_s - time.monotonic()
                if rest_s > 0:
                    await asyncio.sleep(min(rest_s, SETTLE_INTERVAL_S))
                else:
                    began = time.monotonic()
                    await self.check()
                self._halves.settle()
        except asyncio.CancelledError:
            await self._settle()
            raise

    async def _settle(self) -> None:
        """At the stop: wait until all that was ended may be written down as such."""
        self._halves.settle()
        try:
            async with asyncio.timeout(STOP_WAIT_MAX_S):
                await until_durable(self._store, self._store.log.end)
        except TimeoutError:
            log.warning("transaction_offsets_behind reason=the disk is slow")
        self._halves.settle()  # what waited for the disk
        self._halves.settle()  # what has happened since

    async def check(self) -> None:
        """One round over all half messages that are open."""
        began_ms, began = self._now_ms(), time.monotonic()
        turn_ends = began + WORK_PER_TURN_MAX_S
        config = self._config()
        limits = CheckLimits(
            timeout_ms=config.transaction_time_out,
            check_max=config.transaction_check_max,
            kept_ms=self._kept_hours() * 3_600_000,
        )
        ledger = self._halves.ledger
        end = min(ledger.end, self._store.max_offset(HALF_TOPIC, HALF_QUEUE_ID))
        offset = ledger.next_open(ledger.base)
        asked = 0
        while offset < end and time.monotonic() - began < ROUND_MAX_S:
            half = await self._half_at(offset)
            if ledger.state(offset) is HalfState.OPEN:  # it may have been ended meanwhile
                is_more, is_asked = self._treat(offset, half, began_ms, limits)
                asked += is_asked
                if not is_more:
                    break
            offset = ledger.next_open(offset + 1)
            if time.monotonic() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = time.monotonic() + WORK_PER_TURN_MAX_S
        if asked:
            log.info("transactions_checked asked=%d base=%d end=%d", asked, ledger.base, end)

    def _treat(
        self, offset: int, half: Record | None, began_ms: int, limits: CheckLimits
    ) -> tuple[bool, bool]:
        """Whether the round goes on, and whether somebody was asked."""
        properties = {} if half is None else decode_properties(half.properties)
        if half is None or not is_deliverable(properties):
            log.error("half_message_unreadable offset=%d is_there=%s", offset, half is not None)
            self._halves.skip(offset)
            return True, False
        verdict = judge(half, properties, began_ms, self._now_ms(), limits)
        if verdict is Verdict.STOP:
            return False, False
        if verdict is Verdict.PARK:
            return self._park(half, properties), False
        if verdict is Verdict.PUT_BACK:
            return self._put_back(half, properties), False
        copy = asked_about(half, properties)
        result = self._halves.copy(half, copy)
        if not result.status.is_stored:
            return self._goes_on(half, properties, result), False
        self._ask(properties, result, question_body(copy, result, self._store_host))
        return True, True

    def _park(self, half: Record, properties: Properties) -> bool:
        self._topics.create_if_absent(TRANSACTION_CHECK_MAX_TOPIC, PARKED_QUEUE_COUNT)
        log.error(
            "transaction_given_up group=%s message=%s offset=%d",
            properties[PRODUCER_GROUP],
            properties.get(UNIQUE_KEY),
            half.queue_offset,
        )
        result = self._halves.park(half, parked(half, properties))
        return self._goes_on(half, properties, result)

    def _put_back(self, half: Record, properties: Properties) -> bool:
        origin = properties.get(TRANSACTION_PREPARED_QUEUE_OFFSET, "")
        ledger = self._halves.ledger
        if origin.isdigit() and ledger.state(int(origin)) is HalfState.ENDED:
            ledger.settle(half.queue_offset, HalfState.ENDED)
            return True
        result = self._halves.copy(half, put_back(half, properties))
        return self._goes_on(half, properties, result)

    def _goes_on(self, half: Record, properties: Properties, result: PutResult) -> bool:
        """A round ends when the store takes nothing now, and the next one tries again. What it
        never takes must not stand in the way of the others."""
        if result.status in _NEVER_TAKEN:
            self._halves.leave(half, properties)
            log.error(
                "transaction_uncopied group=%s message=%s offset=%d reason=%s",
                properties[PRODUCER_GROUP],
                properties.get(UNIQUE_KEY),
                half.queue_offset,
                result.reason or result.status.name,
            )
            return True
        if not result.status.is_stored:
            log.warning("transaction_check_put_off reason=%s", result.reason or result.status.name)
        return result.status.is_stored

    def _ask(self, properties: Properties, copy: PutResult, body: bytes) -> None:
        group, unique_key = properties[PRODUCER_GROUP], properties.get(UNIQUE_KEY)
        member = self._producers.pick(group, _is_usable)
        if member is None:
            log.warning("transaction_unasked group=%s reason=nobody is online", group)
            return
        header = CheckTransactionState(
            half_queue_offset=copy.queue_offset,
            commit_log_offset=copy.log_offset,
            message_id=unique_key,
            transaction_id=unique_key,
            offset_message_id=make_offset_id(self._store_host, copy.log_offset),
            topic=HALF_TOPIC,
            target_broker_name=self._config().broker_name,
        )
        request = new_request(RequestCode.CHECK_TRANSACTION_STATE, to_fields(header), body)
        try:
            _connection(member).send_oneway(request)
        except RemotingError as error:  # it is going, or does not read: asked again next time
            log.warning("transaction_unasked group=%s reason=%s", group, error)

    async def _half_at(self, offset: int) -> Record | None:
        """The half message at a place of its queue; None: it cannot be read."""
        queue = self._store.queues.get(HALF_TOPIC, HALF_QUEUE_ID)
        if queue is None or offset < queue.min_offset:
            return None
        entry = queue.entries(offset, 1)
        if entry is None:
            entry = await asyncio.to_thread(queue.entries_from_disk, offset, 1)
        if len(entry) < ENTRY.size:
            return None
        log_offset, _, _ = ENTRY.unpack(entry)
        content = self._store.record_at(log_offset)
        if content is None:
            content = await asyncio.to_thread(self._store.record_at_waiting, log_offset)
        if content is None:
            return None
        try:
            half = decode_record(content, is_crc_checked=False)
        except RecordError:
            return None
        is_it = half.topic == HALF_TOPIC and half.queue_offset == offset
        return half if is_it else None


def _is_usable(connection: object) -> bool:
    return not cast(Connection, connection).is_closed


def _connection(member: Member) -> Connection:
    return cast(Connection, member.connection)
