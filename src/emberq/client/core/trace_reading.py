"""Reading message trace: records of clients of both lines and of all languages.

The opposite of `trace_records`. Older clients write fewer fields; what a record does not say is
None here. A record that cannot be read is left out: the others are worth showing.
"""

from collections.abc import Callable, Iterator
from typing import TypedDict

from msgspec import Struct

from emberq.client.core.trace_records import FIELD_END, RECORD_END

MESSAGE_TYPES = ("normal", "half", "commit", "delayed", "ordered")
CONSUME_RESULTS = ("success", "time out", "exception", "returned null", "failed")
# Sizes, counts and durations are ints of Java's. Times end at 9999-01-01, so that whoever adds a
# duration to one still has a date.
NUMBER_MAX = 2**31 - 1
TIME_MAX_MS = 253_370_764_800_000


class _Told(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a producer says first, whatever it has done."""

    at_ms: int
    region: str | None
    group: str | None
    topic: str | None
    message_ids: list[str]  # of a batch all of them


class Published(_Told, frozen=True, kw_only=True, tag="published"):
    """A producer's send, as the producer saw it."""

    tags: str | None
    keys: list[str]
    store_host: str | None
    body_size: int | None
    cost_ms: int | None
    message_type: str | None
    offset_message_id: str | None
    is_success: bool
    client_host: str | None = None


class ConsumeBegan(Struct, frozen=True, kw_only=True, tag="consumeBegan", rename="camel"):
    at_ms: int
    region: str | None
    group: str | None
    request_id: str
    message_ids: list[str]
    retry_times: int | None
    keys: list[str]
    client_host: str | None = None


class ConsumeEnded(Struct, frozen=True, kw_only=True, tag="consumeEnded", rename="camel"):
    """Clients before 4.9 say neither when nor of which group."""

    at_ms: int | None
    group: str | None
    request_id: str
    message_ids: list[str]
    cost_ms: int | None
    is_success: bool
    keys: list[str]
    result: str | None
    client_host: str | None = None


class TransactionEnded(_Told, frozen=True, kw_only=True, tag="transactionEnded"):
    tags: str | None
    keys: list[str]
    store_host: str | None
    message_type: str | None
    transaction_id: str | None
    state: str | None
    is_from_check: bool
    client_host: str | None = None


class Recalled(_Told, frozen=True, kw_only=True, tag="recalled"):
    is_success: bool
    keys: list[str] = []
    client_host: str | None = None


TraceEvent = Published | ConsumeBegan | ConsumeEnded | TransactionEnded | Recalled


def read_trace(text: str, client_host: str | None = None) -> Iterator[TraceEvent]:
    """The records of one trace message. `client_host` is who sent it; some records name another."""
    for record in text.split(RECORD_END):
        fields = record.split(FIELD_END)
        read = _READERS.get(fields[0])
        if read is None:
            continue
        try:
            yield read(_Fields(fields, client_host))
        except (ValueError, IndexError):
            continue


class _Fields:
    """The fields of one record; Java writes what is missing as `null`."""

    def __init__(self, fields: list[str], client_host: str | None) -> None:
        self._fields = fields
        self.client_host = client_host
        self.count = len(fields)

    def text(self, place: int) -> str | None:
        value = self._fields[place] if place < self.count else ""
        return None if value in ("", "null") else value

    def words(self, place: int) -> list[str]:
        return (self.text(place) or "").split()

    def ids(self, place: int) -> list[str]:
        return [each for each in self._fields[place].split(",") if each]

    def number_or_none(self, place: int) -> int | None:
        text = self.text(place)
        return None if text is None else _within(-NUMBER_MAX - 1, int(text), NUMBER_MAX)

    def time_ms(self, place: int) -> int:
        return _within(0, int(self._fields[place]), TIME_MAX_MS)

    def time_ms_or_none(self, place: int) -> int | None:
        return None if self.text(place) is None else self.time_ms(place)

    def is_true(self, place: int) -> bool:
        return (self.text(place) or "").lower() == "true"

    def named(self, place: int, names: tuple[str, ...]) -> str | None:
        number = self.number_or_none(place)
        if number is None:
            return None
        return names[number] if 0 <= number < len(names) else str(number)


def _within(low: int, number: int, high: int) -> int:
    """Raises ValueError: no client means it, and no column of 64 bits need hold it."""
    if not low <= number <= high:
        raise ValueError(f"{number} is not between {low} and {high}")
    return number


class _ToldFields(TypedDict):
    """Those of `_Told`."""

    at_ms: int
    region: str | None
    group: str | None
    topic: str | None
    message_ids: list[str]


def _told(fields: _Fields) -> _ToldFields:
    return {
        "at_ms": fields.time_ms(1),
        "region": fields.text(2),
        "group": fields.text(3),
        "topic": fields.text(4),
        "message_ids": fields.ids(5),
    }


def _published(fields: _Fields) -> Published:
    # 13 fields end with success; then the broker's id came before it, and at last the client.
    has_offset_id = fields.count >= 14
    return Published(
        **_told(fields),
        tags=fields.text(6),
        keys=fields.words(7),
        store_host=fields.text(8),
        body_size=fields.number_or_none(9),
        cost_ms=fields.number_or_none(10),
        message_type=fields.named(11, MESSAGE_TYPES),
        offset_message_id=fields.text(12) if has_offset_id else None,
        is_success=fields.is_true(13 if has_offset_id else 12),
        client_host=fields.text(14) or fields.client_host,
    )


def _consume_began(fields: _Fields) -> ConsumeBegan:
    return ConsumeBegan(
        at_ms=fields.time_ms(1),
        region=fields.text(2),
        group=fields.text(3),
        request_id=fields.text(4) or "",
        message_ids=fields.ids(5),
        retry_times=fields.number_or_none(6),
        keys=fields.words(7),
        client_host=fields.text(8) or fields.client_host,
    )


def _consume_ended(fields: _Fields) -> ConsumeEnded:
    has_group = fields.count >= 9
    return ConsumeEnded(
        at_ms=fields.time_ms_or_none(7) if has_group else None,
        group=fields.text(8) if has_group else None,
        request_id=fields.text(1) or "",
        message_ids=fields.ids(2),
        cost_ms=fields.number_or_none(3),
        is_success=fields.is_true(4),
        keys=fields.words(5),
        result=fields.named(6, CONSUME_RESULTS),
        client_host=fields.client_host,
    )


def _transaction_ended(fields: _Fields) -> TransactionEnded:
    return TransactionEnded(
        **_told(fields),
        tags=fields.text(6),
        keys=fields.words(7),
        store_host=fields.text(8),
        message_type=fields.named(9, MESSAGE_TYPES),
        transaction_id=fields.text(10),
        state=fields.text(11),
        is_from_check=fields.is_true(12),
        client_host=fields.client_host,
    )


def _recalled(fields: _Fields) -> Recalled:
    return Recalled(
        **_told(fields),
        is_success=fields.is_true(6),
        client_host=fields.client_host,
    )


_READERS: dict[str, Callable[[_Fields], TraceEvent]] = {
    "Pub": _published,
    "SubBefore": _consume_began,
    "SubAfter": _consume_ended,
    "EndTransaction": _transaction_ended,
    "Recall": _recalled,
}
