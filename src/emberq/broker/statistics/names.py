"""The official counters: what each counts, and how its keys are built."""

from enum import IntEnum
from typing import NamedTuple

SEPARATOR = "@"


class Column(IntEnum):
    """The numbers of a cell."""

    CALLS = 0
    COUNT = 1
    SIZE = 2
    TIME = 3


class Counter(NamedTuple):
    key_parts: tuple[str, ...]
    column: Column


class CounterKey(NamedTuple):
    """A counter's key, taken apart. Without a group it is about puts, with one about gets."""

    topic: str
    group: str | None
    queue_id: int | None


def _counter(key_form: str, column: Column) -> Counter:
    return Counter(tuple(key_form.split(SEPARATOR)), column)


COUNTERS = {
    "TOPIC_PUT_NUMS": _counter("topic", Column.COUNT),
    "TOPIC_PUT_SIZE": _counter("topic", Column.SIZE),
    "TOPIC_PUT_LATENCY": _counter("queue@topic", Column.TIME),
    "QUEUE_PUT_NUMS": _counter("topic@queue", Column.COUNT),
    "QUEUE_PUT_SIZE": _counter("topic@queue", Column.SIZE),
    "GROUP_GET_NUMS": _counter("topic@group", Column.COUNT),
    "GROUP_GET_SIZE": _counter("topic@group", Column.SIZE),
    "GROUP_GET_LATENCY": _counter("queue@topic@group", Column.TIME),
    "QUEUE_GET_NUMS": _counter("topic@queue@group", Column.COUNT),
    "QUEUE_GET_SIZE": _counter("topic@queue@group", Column.SIZE),
}
# With `enableDetailStat=false` there are no figures of single queues.
COUNTERS_WITHOUT_QUEUES = {
    **{name: it for name, it in COUNTERS.items() if not name.startswith("QUEUE_")},
    "GROUP_GET_LATENCY": _counter("topic@group", Column.TIME),
}

SEND_BACK = "SNDBCK_PUT_NUMS"
OF_BROKER = "BROKER_"
BROKER_PUT, BROKER_GET = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"
BROKER_PUT_OF_USERS = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
BROKER_GET_OF_USERS = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"


def parse_key(counter: Counter, key: str) -> CounterKey | None:
    parts = key.split(SEPARATOR)  # no name of a topic or group has one in it
    if len(parts) != len(counter.key_parts):
        return None
    values = dict(zip(counter.key_parts, parts, strict=True))
    queue = values.get("queue")
    if queue is not None and not (queue.isascii() and queue.isdigit()):
        return None
    return CounterKey(values["topic"], values.get("group"), None if queue is None else int(queue))
