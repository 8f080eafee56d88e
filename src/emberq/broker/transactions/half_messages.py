"""What a half message is turned into: stored, copied, asked about, delivered, given up."""

from msgspec.structs import replace

from emberq.broker.appending import OutgoingMessage, copy_of
from emberq.model.system_topics import HALF_TOPIC, TRANSACTION_CHECK_MAX_TOPIC
from emberq.record.encode import encode_record
from emberq.record.host import PackedHost
from emberq.record.layout import PROPERTIES_SIZE_MAX
from emberq.record.properties import encode_properties
from emberq.record.property_names import (
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQUE_KEY,
    WAIT,
)
from emberq.record.record import Record
from emberq.record.system_flag import TransactionType, with_transaction_type
from emberq.store.results import PutResult

HALF_QUEUE_ID = 0
PARKED_QUEUE_ID = 0

_QUEUE_ID_DIGITS_MAX = 9

Properties = dict[str, str]


def is_half(properties: Properties) -> bool:
    """Whether a message asks to be stored out of sight."""
    return properties.get(TRANSACTION_PREPARED, "").lower() == "true"


def as_half(message: OutgoingMessage) -> OutgoingMessage:
    """Where a producer's message waits for its end. Its type is "none" there: all others have no
    place in a queue."""
    properties = {
        **message.properties,
        REAL_TOPIC: message.topic,
        REAL_QUEUE_ID: str(message.queue_id),
    }
    if UNIQUE_KEY in properties:
        properties[TRANSACTION_ID] = properties[UNIQUE_KEY]
    return replace(
        message,
        topic=HALF_TOPIC,
        queue_id=HALF_QUEUE_ID,
        properties=properties,
        system_flag=with_transaction_type(message.system_flag, TransactionType.NONE),
    )


def is_deliverable(properties: Properties) -> bool:
    """Whether it says where it belongs; what does not is no half message."""
    queue_text = properties.get(REAL_QUEUE_ID, "")
    return (
        bool(properties.get(REAL_TOPIC))
        and bool(properties.get(PRODUCER_GROUP))
        and queue_text.isascii()
        and queue_text.isdigit()
        and len(queue_text) <= _QUEUE_ID_DIGITS_MAX
    )


def committed(half: Record, properties: Properties) -> OutgoingMessage:
    """The message that consumers see."""
    kept = dict(properties)
    topic, queue_id = kept.pop(REAL_TOPIC), int(kept.pop(REAL_QUEUE_ID))
    message = copy_of(half, kept, topic, queue_id)
    message.system_flag = with_transaction_type(half.system_flag, TransactionType.COMMIT)
    message.prepared_offset = half.log_offset
    return message


def asked_about(half: Record, properties: Properties) -> OutgoingMessage:
    """The copy that stands for a half message while its producer is asked."""
    times = {TRANSACTION_CHECK_TIMES: str(check_times(properties) + 1)}
    return copy_of(half, properties | times, HALF_TOPIC, HALF_QUEUE_ID)


def put_back(half: Record, properties: Properties) -> OutgoingMessage:
    """The copy of a half message that nobody may be asked about yet. Official brokers count it as
    a question, and give such a message up before they have asked."""
    origin = properties.get(TRANSACTION_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
    added = {TRANSACTION_PREPARED_QUEUE_OFFSET: origin, WAIT: "false"}
    return copy_of(half, properties | added, HALF_TOPIC, HALF_QUEUE_ID)


def parked(half: Record, properties: Properties) -> OutgoingMessage:
    """What is kept of a half message that was asked about too often, or is too old."""
    times = {TRANSACTION_CHECK_TIMES: properties.get(TRANSACTION_CHECK_TIMES, "1")}
    return copy_of(half, properties | times, TRANSACTION_CHECK_MAX_TOPIC, PARKED_QUEUE_ID)


def resumed(half: Record, properties: Properties) -> OutgoingMessage:
    """A half message that is to be asked about again, as if for the first time."""
    return copy_of(half, properties | {TRANSACTION_CHECK_TIMES: "0"}, HALF_TOPIC, HALF_QUEUE_ID)


def question_body(copy: OutgoingMessage, stored: PutResult, store_host: PackedHost) -> bytes:
    """A copy as its producer is shown it: a record of the topic that it is meant for."""
    properties = copy.properties
    shown = encode_properties(properties | {WAIT: "false"})
    if len(shown) > PROPERTIES_SIZE_MAX:  # no room for one more
        shown = encode_properties(properties)
    return encode_record(
        properties[REAL_TOPIC],
        copy.body,
        shown,
        queue_id=int(properties[REAL_QUEUE_ID]),
        flag=copy.flag,
        queue_offset=stored.queue_offset,
        log_offset=stored.log_offset,
        system_flag=copy.system_flag,
        born_at_ms=copy.born_at_ms,
        born_host=copy.born_host,
        stored_at_ms=stored.stored_at_ms,
        store_host=store_host,
        reconsume_times=copy.reconsume_times,
        prepared_offset=0,
    )


def check_times(properties: Properties) -> int:
    """How often its producers were asked."""
    text = properties.get(TRANSACTION_CHECK_TIMES, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0
