"""How messages enter the store: delays, properties as bytes, and what an outcome means."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from emberq.broker.config import BrokerConfig
from emberq.broker.delay_levels import DelayLevels
from emberq.broker.timed_messages import TimedMessages, refusal_remark
from emberq.errors import ProtocolError, RecordError, RequestRejected
from emberq.model.system_topics import SCHEDULE_TOPIC, TIMER_TOPIC
from emberq.protocol.codes import ResponseCode
from emberq.record.host import PackedHost
from emberq.record.layout import TOPIC_SIZE_MAX_V1, BytesLike
from emberq.record.properties import encode_properties
from emberq.record.property_names import (
    DELAY,
    INNER_COUNT,
    KEYS,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQUE_KEY,
    WAIT,
)
from emberq.record.record import Record
from emberq.record.system_flag import INNER_BATCH, TransactionType, transaction_type
from emberq.store.disk_space import DiskUsage
from emberq.store.results import PutResult, PutStatus

TIMER_PROPERTIES = frozenset({TIMER_DELAY_SECONDS, TIMER_DELAY_MS, TIMER_DELIVER_MS})

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1


class PutOne(Protocol):
    """`MessageStore.put`."""

    def __call__(
        self,
        topic: str,
        queue_id: int,
        body: BytesLike,
        properties: bytes = b"",
        *,
        flag: int = 0,
        system_flag: int = 0,
        born_at_ms: int = 0,
        born_host: PackedHost,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        tags: str | None = None,
        keys: str | None = None,
        unique_key: str | None = None,
        delay: str | None = None,
        was_accepted: bool = False,
    ) -> PutResult: ...


class PutCounter(Protocol):
    """What statistics want to know of a put."""

    def count_put(
        self, topic: str, queue_id: int, count: int, size: int, time_ms: int = 0
    ) -> None: ...

    def count_put_failed(self) -> None: ...

    def count_put_wait_ms(self, topic: str, queue_id: str, time_ms: int) -> None:
        """How long a put, to the queue that its request names, had to wait for the disk."""


class OutgoingMessage(Struct, kw_only=True, gc=False):
    """A message on its way into the store."""

    topic: str
    queue_id: int
    body: BytesLike
    properties: dict[str, str]
    born_host: PackedHost
    born_at_ms: int = 0
    flag: int = 0
    system_flag: int = 0
    reconsume_times: int = 0
    prepared_offset: int = 0
    was_accepted: bool = False  # its body stands in the log: `maxMessageSize` counts no more


def copy_of(
    record: Record, properties: dict[str, str], topic: str, queue_id: int
) -> OutgoingMessage:
    """A message of the log once more, for another place."""
    return OutgoingMessage(
        topic=topic,
        queue_id=queue_id,
        body=record.body,
        properties=properties,
        born_host=record.born_host,
        born_at_ms=record.born_at_ms,
        flag=record.flag,
        system_flag=record.system_flag,
        reconsume_times=record.reconsume_times,
        was_accepted=True,
    )


class Appended(Struct, frozen=True, gc=False):
    """The outcome of a put, and the queue that the message really went to."""

    result: PutResult
    topic: str
    queue_id: int
    # The slot of a message that waits for a time of its own; None for others.
    timer_slot_ms: int | None = None

    @property
    def size(self) -> int:
        return self.result.end_offset - self.result.log_offset


class Appender:
    """Puts messages for everybody but the short way of plain sends."""

    def __init__(self, put: PutOne, delay_levels: DelayLevels, timed: TimedMessages) -> None:
        self._put = put
        self._levels = delay_levels
        self._timed = timed

    def put(self, message: OutgoingMessage) -> Appended:
        """Store a message; one with a delay level goes to the schedule topic first, one that asks
        for a time to that of the timer.

        Raises:
            ProtocolError: the delay level is no number.
        """
        topic, queue_id, properties = message.topic, message.queue_id, message.properties
        slot_ms: int | None = None
        if is_inner_batch(properties, message.system_flag):
            return _refused(message, PutStatus.MESSAGE_ILLEGAL, "an inner batch")
        kind = transaction_type(message.system_flag)
        if kind in (TransactionType.NONE, TransactionType.COMMIT):
            level = delay_level(properties)
            if level > 0:
                properties = self._delayed(message, level)
                topic, queue_id = SCHEDULE_TOPIC, int(properties[DELAY]) - 1
            elif is_timer(properties) and topic != TIMER_TOPIC:
                placed = self._timed.place(properties)
                if isinstance(placed, PutStatus):
                    return _refused(message, placed, "a timed message")
                if placed is not None:
                    slot_ms, properties = placed, _timed(message, placed)
                    topic, queue_id = TIMER_TOPIC, 0
        return self._stored(message, topic, queue_id, properties, slot_ms)

    def put_as_it_is(self, message: OutgoingMessage) -> Appended:
        """Store a message where it says, whatever else it asks for: half of a transaction."""
        if is_inner_batch(message.properties, message.system_flag):
            return _refused(message, PutStatus.MESSAGE_ILLEGAL, "an inner batch")
        return self._stored(message, message.topic, message.queue_id, message.properties)

    def _stored(
        self,
        message: OutgoingMessage,
        topic: str,
        queue_id: int,
        properties: dict[str, str],
        slot_ms: int | None = None,
    ) -> Appended:
        try:
            encoded = encode_properties(properties)
        except RecordError as error:
            return _refused(message, PutStatus.MESSAGE_ILLEGAL, str(error))
        result = self._put(
            topic,
            queue_id,
            message.body,
            encoded,
            flag=message.flag,
            system_flag=message.system_flag,
            born_at_ms=message.born_at_ms,
            born_host=message.born_host,
            reconsume_times=message.reconsume_times,
            prepared_offset=message.prepared_offset,
            tags=properties.get(TAGS),
            keys=properties.get(KEYS),
            unique_key=properties.get(UNIQUE_KEY),
            delay=properties.get(DELAY),
            was_accepted=message.was_accepted,
        )
        return Appended(result, topic, queue_id, slot_ms)

    def _delayed(self, message: OutgoingMessage, level: int) -> dict[str, str]:
        """Its properties while it waits; they stay with it when it is delivered."""
        properties = {
            name: value
            for name, value in message.properties.items()
            if name not in TIMER_PROPERTIES  # a level wins
        }
        properties[DELAY] = str(self._levels.clamp(level))
        properties[REAL_TOPIC] = message.topic
        properties[REAL_QUEUE_ID] = str(message.queue_id)
        return properties


def _timed(message: OutgoingMessage, slot_ms: int) -> dict[str, str]:
    """Its properties while it waits for its time."""
    return {
        **message.properties,
        TIMER_OUT_MS: str(slot_ms),
        REAL_TOPIC: message.topic,
        REAL_QUEUE_ID: str(message.queue_id),
    }


def delay_level(properties: dict[str, str]) -> int:
    """The delay level that a message asks for; 0 if none.

    Raises:
        ProtocolError: it is no number.
    """
    text = properties.get(DELAY)
    if text is None:
        return 0
    digits = text[text[:1] in ("+", "-") :]
    if not (digits.isascii() and digits.isdigit() and len(text) <= 32):
        raise ProtocolError(f"the property DELAY is no number: {text[:64]!r}")
    level = int(text)
    if not _INT32_MIN <= level <= _INT32_MAX:
        raise ProtocolError(f"the property DELAY is no number: {text[:64]!r}")
    return level


def is_timer(properties: dict[str, str]) -> bool:
    """Whether a message asks to be delivered at a time of its own."""
    return not TIMER_PROPERTIES.isdisjoint(properties) and TIMER_OUT_MS not in properties


def is_inner_batch(properties: dict[str, str], system_flag: int) -> bool:
    """Whether a message claims to be several; only topics of batch queues may hold such."""
    return bool(system_flag & INNER_BATCH) or INNER_COUNT in properties


def is_wait_wanted(properties: dict[str, str]) -> bool:
    """Whether the producer wants its answer only when the message is durable."""
    wait = properties.get(WAIT)
    return wait is None or wait.lower() == "true"


def _refused(message: OutgoingMessage, status: PutStatus, reason: str) -> Appended:
    return Appended(PutResult(status, reason=reason), message.topic, message.queue_id)


# Codes of outcomes that mean "stored"; all others are refusals.
STORED_CODES = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
}

PAGE_CACHE_BUSY_REMARK = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
_PLAIN_REFUSALS = {
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "create mapped file failed, server is busy or broken.",
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: (ResponseCode.SYSTEM_BUSY, PAGE_CACHE_BUSY_REMARK),
    PutStatus.UNKNOWN_ERROR: (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"),
}


def refusal(
    status: PutStatus,
    fields: dict[str, str],
    *,
    config: BrokerConfig,
    body_size_max: int,
    disk_usage: Callable[[], DiskUsage],
) -> RequestRejected:
    """The answer to a send that was not stored, in the official words."""
    if (timer_remark := refusal_remark(status, config)) is not None:
        is_illegal = status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL
        timer_code = ResponseCode.MESSAGE_ILLEGAL if is_illegal else ResponseCode.SYSTEM_ERROR
        return RequestRejected(timer_code, timer_remark, fields)
    if status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED):
        remark = (
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {body_size_max}B, msg properties length limit 32KB."
        )
        return RequestRejected(ResponseCode.MESSAGE_ILLEGAL, remark, fields)
    if status is PutStatus.SERVICE_NOT_AVAILABLE:
        remark = (
            "service not available now. It may be caused by one of the following reasons: the "
            f"broker's disk is full [{disk_ratios(disk_usage())}], messages are put to the slave, "
            "message store has been shut down, etc."
        )
        return RequestRejected(ResponseCode.SERVICE_NOT_AVAILABLE, remark, fields)
    code, remark = _PLAIN_REFUSALS.get(status, _PLAIN_REFUSALS[PutStatus.UNKNOWN_ERROR])
    return RequestRejected(code, remark, fields)


def is_topic_too_long(topic: str) -> bool:
    """Whether only a record of version 2 could hold the topic: that is for retry topics."""
    return len(topic) > TOPIC_SIZE_MAX_V1


def disk_ratios(usage: DiskUsage) -> str:
    """How full the disks of the store are, as official refusals show it."""
    return (
        f"CL: {usage.commit_log_ratio:5.2f} CQ: {usage.queues_ratio:5.2f} "
        f"INDEX: {usage.index_ratio:5.2f}"
    )
