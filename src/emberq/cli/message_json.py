"""A stored message as one line of JSON."""

from base64 import b64encode
from enum import Enum
from functools import lru_cache

import msgspec

from emberq.cli.output import iso_time
from emberq.errors import RecordError
from emberq.record.decode import with_plain_body
from emberq.record.host import format_host
from emberq.record.message_id import make_offset_id
from emberq.record.properties import decode_properties
from emberq.record.property_names import KEYS, TAGS, UNIQUE_KEY
from emberq.record.record import Record
from emberq.record.system_flag import compression_type, transaction_type

_HOSTS_CACHED_MAX = 1024
_FLAGS_CACHED_MAX = 256


class BodyForm(Enum):
    AUTO = "auto"  # text where the bytes are UTF-8, else base64
    NONE = "none"
    TEXT = "text"
    BASE64 = "base64"


class MessageLine(msgspec.Struct, rename="camel", gc=False):
    """The members stand in the order in which people look for them."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    offset_id: str
    unique_key: str | None
    keys: list[str]
    tags: str | None
    stored_at: str | None
    stored_at_ms: int
    store_host: str
    born_at: str | None
    born_at_ms: int
    born_host: str
    flag: int
    system_flag: int
    transaction: str
    compression: str | None  # of the body as it stands here
    reconsume_times: int
    prepared_offset: int
    size_bytes: int
    body_size_bytes: int
    body_encoding: str | None
    body: str | None
    properties: dict[str, str]


def message_line(record: Record, form: BodyForm, *, is_decompressed: bool) -> MessageLine:
    """The message as it will be printed.

    Raises:
        RecordError: the body cannot be decompressed.
    """
    if is_decompressed:
        record = with_plain_body(record)
    properties = decode_properties(record.properties)
    encoding, body = _body(bytes(record.body), form)
    transaction, compression = _flag_words(record.system_flag)
    return MessageLine(
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.log_offset,
        make_offset_id(record.store_host, record.log_offset),
        properties.get(UNIQUE_KEY),
        [key for key in properties.get(KEYS, "").split(" ") if key],
        properties.get(TAGS),
        iso_time(record.stored_at_ms),
        record.stored_at_ms,
        _host_text(record.store_host),
        iso_time(record.born_at_ms),
        record.born_at_ms,
        _host_text(record.born_host),
        record.flag,
        record.system_flag,
        transaction,
        compression,
        record.reconsume_times,
        record.prepared_offset,
        record.size_bytes,
        len(record.body),
        encoding,
        body,
        properties,
    )


def _body(body: bytes, form: BodyForm) -> tuple[str | None, str | None]:
    if form is BodyForm.NONE:
        return None, None
    if form is BodyForm.TEXT:
        return "text", body.decode("utf-8", "replace")
    if form is BodyForm.AUTO:
        try:
            return "text", body.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return "base64", b64encode(body).decode("ascii")


@lru_cache(maxsize=_FLAGS_CACHED_MAX)
def _flag_words(system_flag: int) -> tuple[str, str | None]:
    """Part of a transaction, and compression."""
    transaction = transaction_type(system_flag).name.lower()
    try:
        kind = compression_type(system_flag)
    except RecordError:
        return transaction, "unknown"
    return transaction, None if kind is None else kind.name.lower()


@lru_cache(maxsize=_HOSTS_CACHED_MAX)
def _host_text(host: bytes) -> str:
    try:
        return format_host(host)
    except RecordError:  # a port that cannot be: show what is stored
        return host.hex()
