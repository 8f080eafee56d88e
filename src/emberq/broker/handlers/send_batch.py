"""Storing several messages of one request (320) that follow one another, or none of them.

Official 5.5.0 brokers store the messages of a batch as the client wrote them: nothing is added to
their properties, and those of the request itself only decide how it is treated.
"""

from msgspec import Struct

from emberq.broker.appending import (
    TIMER_PROPERTIES,
    delay_level,
    is_inner_batch,
    is_timer,
    is_topic_too_long,
    is_wait_wanted,
)
from emberq.broker.handlers.send_fields import SendValues
from emberq.broker.handlers.send_targets import Target
from emberq.errors import ProtocolError, RecordError, RequestRejected
from emberq.protocol.codes import ResponseCode
from emberq.record.host import PackedHost
from emberq.record.properties import parse_properties
from emberq.record.property_names import DELAY, INNER_COUNT, UNIQUE_KEY
from emberq.record.system_flag import INNER_BATCH, TRANSACTION_MASK
from emberq.store.message_store import MessageStore
from emberq.store.results import PutResult, PutStatus

_has_no_unusual = frozenset(TIMER_PROPERTIES | {DELAY, INNER_COUNT}).isdisjoint


class BatchOutcome(Struct, frozen=True, gc=False):
    result: PutResult
    unique_key: str | None
    is_wait_wanted: bool


def put_batch(
    store: MessageStore,
    values: SendValues,
    body: bytes,
    born_host: PackedHost,
    target: Target,
    queue_id: int,
    answer_fields: dict[str, str],
) -> BatchOutcome:
    """Store a batch for a topic that passed the checks of any send.

    Raises:
        RequestRejected: no batch may go there.
        ProtocolError: the body is no batch, or too long.
    """
    topic, _, system_flag, born_at_ms, _, text, reconsume_times, _ = values
    _check_topic(target, answer_fields)
    properties = parse_properties(text)
    status = _refused_status(properties, system_flag)
    if status is None and not body:
        status = PutStatus.MESSAGE_ILLEGAL
    if status is not None:
        result = PutResult(status)
    else:
        size, size_max = len(body), store.config.max_message_size
        if size > size_max:
            raise ProtocolError(f"message body size exceeded: {size} bytes, at most {size_max}")
        try:
            result = store.put_encoded_batch(
                topic,
                queue_id,
                body,
                system_flag=system_flag | target.system_flag,
                born_at_ms=born_at_ms,
                born_host=born_host,
                reconsume_times=reconsume_times,
            )
        except RecordError as error:
            raise ProtocolError(f"the body is no batch: {error}") from None
    return BatchOutcome(result, properties.get(UNIQUE_KEY), is_wait_wanted(properties))


def _check_topic(target: Target, answer_fields: dict[str, str]) -> None:
    topic = target.config.name
    if is_topic_too_long(topic):
        raise RequestRejected(
            ResponseCode.MESSAGE_ILLEGAL,
            f"message topic length too long {len(topic)}",
            answer_fields,
        )
    if target.is_retry:
        raise RequestRejected(
            ResponseCode.MESSAGE_ILLEGAL,
            f"batch request does not support retry group {topic}",
            answer_fields,
        )


def _refused_status(properties: dict[str, str], system_flag: int) -> PutStatus | None:
    """Neither delays nor transactions can be asked for by many messages at once."""
    if not system_flag & (INNER_BATCH | TRANSACTION_MASK) and _has_no_unusual(properties):
        return None
    if is_inner_batch(properties, system_flag):
        return PutStatus.MESSAGE_ILLEGAL
    if delay_level(properties) > 0 or system_flag & TRANSACTION_MASK:
        return PutStatus.MESSAGE_ILLEGAL
    return PutStatus.MESSAGE_ILLEGAL if is_timer(properties) else None
