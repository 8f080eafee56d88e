"""Offsets of many queues as one value, and as the JSON that Spark stores. Pure.

Spark compares offsets as text, so keys are always sorted. The form is
`{"@version": 1, "topic": {"broker": {"0": 123}}}`; no topic can begin with `@`.
"""

from collections.abc import Mapping
from typing import Any

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue

Offsets = dict[MessageQueue, int]

VERSION_KEY, VERSION = "@version", 1
# In what users write; never in what Spark stores.
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1


def write_offsets(offsets: Mapping[MessageQueue, int]) -> dict[str, Any]:
    """The next offset to read of each queue, in the one order that there is."""
    table: dict[str, Any] = {VERSION_KEY: VERSION}
    for queue in sorted(offsets, key=lambda each: (each.topic, each.broker_name, each.queue_id)):
        brokers = table.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return table


def read_offsets(table: Any) -> Offsets:
    """Raises ConfigError for what is no table of offsets."""
    if not isinstance(table, dict):
        raise ConfigError("offsets are an object: topic, broker, queue id")
    version = table.get(VERSION_KEY, VERSION)
    if version != VERSION:
        raise ConfigError(f"offsets of version {version}, at most {VERSION} can be read")
    offsets: Offsets = {}
    for topic, brokers in table.items():
        if topic == VERSION_KEY:
            continue
        if not isinstance(brokers, dict):
            raise ConfigError(f"offsets of {topic}: expected an object of brokers")
        for broker, queues in brokers.items():
            if not isinstance(queues, dict):
                raise ConfigError(f"offsets of {topic} in {broker}: expected an object of queues")
            for number, offset in queues.items():
                offsets[_queue(topic, broker, number)] = _offset(topic, broker, number, offset)
    return offsets


def _queue(topic: str, broker: str, number: str) -> MessageQueue:
    if not number.isascii() or not number.isdigit():
        raise ConfigError(f"{number!r} is no queue of {topic} in {broker}")
    return MessageQueue(broker, int(number), topic)


def _offset(topic: str, broker: str, number: str, offset: Any) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST_OFFSET:
        raise ConfigError(f"{offset!r} is no offset of {topic} {broker}/{number}")
    return offset
