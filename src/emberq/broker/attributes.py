"""Attributes of topics and groups: which there are, and how a request changes them.

A change is a map from `+key` to the new value, or from `-key` to anything.
"""

from collections.abc import Mapping
from typing import Protocol

from emberq.errors import RequestRejected
from emberq.protocol.codes import ResponseCode

INT64_MAX = 2**63 - 1
MINUTES_OF_30_DAYS = 30 * 24 * 60

ADD, DELETE = "+", "-"
MESSAGE_TYPE = "message.type"
MIXED = "MIXED"


def refused(remark: str) -> RequestRejected:
    return RequestRejected(ResponseCode.SYSTEM_ERROR, remark)


def not_supported(what: str) -> RequestRejected:
    return RequestRejected(ResponseCode.INVALID_PARAMETER, f"{what} is not supported.")


class Attribute(Protocol):
    @property
    def is_changeable(self) -> bool: ...
    def check(self, value: str) -> None:
        """Raises RequestRejected."""


class Choice:
    """One of several words, some of which only official brokers know what to do with."""

    def __init__(self, *words: str, not_here: str | None = None, is_changeable: bool) -> None:
        self._words = words
        self._not_here = not_here
        self.is_changeable = is_changeable

    def check(self, value: str) -> None:
        if value not in self._words:
            raise refused(f"value is not in set: [{', '.join(self._words)}]")
        if value == self._not_here:
            raise not_supported(value)


class Range:
    is_changeable = True

    def __init__(self, lowest: int, highest: int) -> None:
        self._lowest = lowest
        self._highest = highest

    def check(self, value: str) -> None:
        digits = value[value[:1] in ("+", "-") :]
        if not (digits.isascii() and digits.isdigit()):
            raise refused(f'For input string: "{value}"')
        if not self._lowest <= int(value) <= self._highest:
            raise refused(f"value is not in range({self._lowest}, {self._highest})")


class Text:
    is_changeable = True

    def check(self, value: str) -> None:
        """Anything will do."""


MESSAGE_TYPES = (
    *("UNSPECIFIED", MIXED, "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL"),
)
TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    "queue.type": Choice("BatchCQ", "SimpleCQ", not_here="BatchCQ", is_changeable=False),
    "cleanup.policy": Choice("DELETE", "COMPACTION", not_here="COMPACTION", is_changeable=False),
    MESSAGE_TYPE: Choice(*MESSAGE_TYPES, is_changeable=True),
    "reserve.time": Range(-1, INT64_MAX),
    "lite.topic.expiration": Range(-1, MINUTES_OF_30_DAYS),
}
GROUP_ATTRIBUTES: Mapping[str, Attribute] = {
    "priority.factor": Range(0, 100),
    # Lite topics are not offered; what is said about them is kept.
    **dict.fromkeys(
        (
            *("lite.bind.topic", "lite.sub.model", "lite.sub.wildcard"),
            *("lite.sub.reset.offset.exclusive", "lite.sub.reset.offset.unsubscribe"),
            *("lite.sub.client.quota", "lite.sub.client.max.event.cnt"),
        ),
        Text(),
    ),
}


def parse_changes(text: str) -> dict[str, str]:
    """Read `+key=value,-key`. Raises RequestRejected."""
    changes: dict[str, str] = {}
    while text.endswith(","):  # empty ends count for nothing, empty parts inside do
        text = text[:-1]
    for part in text.split(",") if text else []:
        key, equals, value = part.partition("=")
        if equals:
            if ADD not in key:
                raise refused(f"add/alter attribute format is wrong: {key}")
            if not value:
                raise refused(f"add/alter attribute format is wrong: {part}")
        elif DELETE not in key:
            raise refused(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise refused(f"key duplication: {key}")
        changes[key] = value.partition("=")[0]
    return changes


def changed_attributes(
    known: Mapping[str, Attribute],
    current: Mapping[str, str] | None,
    changes: Mapping[str, str],
) -> dict[str, str]:
    """The attributes after a change; `current` is None for something new.

    Raises:
        RequestRejected: a change that is not allowed; nothing of it counts.
    """
    result = dict(current or {})
    seen: set[str] = set()
    deletions_first = sorted(changes.items(), key=lambda change: change[0][:1] != DELETE)
    for signed_key, value in deletions_first:
        sign, key = signed_key[:1], signed_key[1:]
        if not key or ADD in key or DELETE in key:
            raise refused("kv string format wrong.")
        if key in seen:
            raise refused(f"alter duplication key. key: {key}")
        seen.add(key)
        if sign != ADD and current is None:
            raise refused(f"only add attribute is supported while creating topic. key: {key}")
        if sign == DELETE and key not in result:
            raise refused(f"attempt to delete a nonexistent key: {key}")
        if sign not in (ADD, DELETE):
            raise refused(f"wrong format key: {signed_key}")
        _check(known, key, None if sign == DELETE else value, is_new=current is None)
        if sign == ADD:
            result[key] = value
        else:
            del result[key]
    return result


def _check(known: Mapping[str, Attribute], key: str, value: str | None, *, is_new: bool) -> None:
    attribute = known.get(key)
    if attribute is None:
        raise refused(f"unsupported key: {key}")
    if not is_new and not attribute.is_changeable:
        raise refused(f"attempt to update an unchangeable attribute. key: {key}")
    if value is not None:
        attribute.check(value)
