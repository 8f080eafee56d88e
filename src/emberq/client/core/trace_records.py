"""Message trace: the text records that trace readers of all languages know.

Fields are separated by 0x01, and each record ends with 0x02. Missing text is written `null`.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

FIELD_END: Final = "\x01"
RECORD_END: Final = "\x02"
NORMAL, HALF, COMMITTED, DELAYED = 0, 1, 2, 3
CONSUMED, RAISED, FAILED = 0, 2, 4

_Field = str | float | bool | None


class _Told(Struct, frozen=True, kw_only=True):
    """What a producer says first, whatever it has done."""

    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    broker_address: str

    def _record(self, name: str, *further: _Field) -> str:
        return _record(
            name,
            self.at_ms,
            self.region,
            self.group,
            self.topic,
            self.message_id,
            self.tags,
            self.keys,
            self.broker_address,
            *further,
        )

    def index_keys(self) -> list[str]:
        return _index_keys(self.message_id, self.keys)


class Sent(_Told, frozen=True, kw_only=True):
    """A message, or a batch with its ids by commas, that a broker has stored."""

    body_size: int
    cost_ms: int
    message_type: int
    offset_message_id: str

    def text(self) -> str:
        return self._record(
            "Pub", self.body_size, self.cost_ms, self.message_type, self.offset_message_id, True
        )


class Consumed(Struct, frozen=True, kw_only=True):
    """A message that a handler has finished with; it makes two records."""

    started_at_ms: int
    ended_at_ms: int
    region: str
    group: str
    request_id: str
    message_id: str
    retry_times: int
    keys: str | None
    cost_ms: int
    code: int

    def text(self) -> str:
        return _record(
            "SubBefore",
            self.started_at_ms,
            self.region,
            self.group,
            self.request_id,
            self.message_id,
            self.retry_times,
            self.keys,
        ) + _record(
            "SubAfter",
            self.request_id,
            self.message_id,
            self.cost_ms,
            self.code == CONSUMED,
            self.keys,
            self.code,
            self.ended_at_ms,
            self.group,
        )

    def index_keys(self) -> list[str]:
        return _index_keys(self.message_id, self.keys)


_STATES = {True: "COMMIT_MESSAGE", False: "ROLLBACK_MESSAGE", None: "UNKNOW"}


class Ended(_Told, frozen=True, kw_only=True):
    """A half message whose broker was told how its transaction ended."""

    transaction_id: str | None
    # True: committed; False: rolled back; None: not known yet.
    outcome: bool | None
    is_from_check: bool

    def text(self) -> str:
        state = _STATES[self.outcome]
        return self._record(
            "EndTransaction", COMMITTED, self.transaction_id, state, self.is_from_check
        )


class Recalled(Struct, frozen=True, kw_only=True):
    """A timed message that a broker was asked to take back."""

    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    is_success: bool

    def text(self) -> str:
        return _record(
            *("Recall", self.at_ms, self.region, self.group),
            *(self.topic, self.message_id, self.is_success),
        )

    def index_keys(self) -> list[str]:
        return [self.message_id]


Context = Sent | Consumed | Ended | Recalled


def trace_message(
    contexts: Sequence[Context], text_max: int, keys_max: int
) -> tuple[str, list[str], int]:
    """The body and the keys of one trace message, and how many contexts went in: at least one."""
    texts: list[str] = []
    keys: dict[str, None] = {}
    text_size = keys_size = 0
    for context in contexts:
        text = context.text()
        own = [key for key in context.index_keys() if key not in keys]
        text_size += len(text)
        keys_size += sum(len(key) + 1 for key in own)
        if texts and (text_size > text_max or keys_size > keys_max):
            break
        texts.append(text)
        keys.update(dict.fromkeys(own))
    return "".join(texts), list(keys), len(texts)


def _index_keys(message_id: str, keys: str | None) -> list[str]:
    return [*message_id.split(","), *(keys or "").split()]


def _record(*fields: _Field) -> str:
    return FIELD_END.join(map(_java_text, fields)) + RECORD_END


def _java_text(value: _Field) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
