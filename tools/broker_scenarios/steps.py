"""The words that the scenarios are written in: requests with their usual fields, and waits."""

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.golden.broker.conversation import ONEWAY_FLAG, Step
from tests.golden.broker.shapes import BORN_MS
from tests.golden.nameserver.conversation import Request

COMMIT, SUSPEND, SUBSCRIPTION, CLASS_FILTER, LITE = 1, 2, 4, 8, 16
SUB_VERSION = 1_700_000_001_000
NAME_SEPARATOR, ENTRY_SEPARATOR = "\x01", "\x02"
BINARY_HEADER = 1

Steps = Iterator[Step]
Shape = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """Steps that start on a fresh broker with the given configuration."""

    name: str
    steps: Callable[[], Steps]
    config: tuple[tuple[str, str], ...] = ()


def scenario(steps: Callable[[], Steps], **config: str) -> Scenario:
    return Scenario(steps.__name__.replace("_", " "), steps, tuple(config.items()))


def ask(name: str, code: int, body: bytes = b"", /, **fields: Any) -> Step:
    texts = {key: field_text(value) for key, value in fields.items() if value is not None}
    return Step("request", name, request=Request(code, texts, body=body))


def field_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def ask_json(name: str, code: int, body: Any, /, **fields: Any) -> Step:
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return ask(name, code, text.encode(), **fields)


# How a step happens


def on(connection: str, step: Step) -> Step:
    return replace(step, connection=connection)


def keep(name: str, step: Step) -> Step:
    return replace(step, keep=name)


def changed(step: Step, **changes: Any) -> Step:
    assert step.request is not None
    return replace(step, request=replace(step.request, **changes))


def oneway(step: Step) -> Step:
    return changed(step, flag=ONEWAY_FLAG)


def at_version(version: int, step: Step) -> Step:
    return changed(step, version=version)


def binary(step: Step) -> Step:
    return changed(step, header_type=BINARY_HEADER)


def without(step: Step, *missing: str) -> Step:
    assert step.request is not None
    fields = {key: value for key, value in step.request.fields.items() if key not in missing}
    return changed(step, fields=fields)


def eventually(until: Callable[[Shape], bool], step: Step) -> Step:
    return replace(step, kind="eventually", until=until)


def found(count: int, step: Step) -> Step:
    """Asked until it answers with so many records: queues and index follow the log."""
    return eventually(lambda shape: len(shape.get("records", ())) == count, step)


def has_code(code: int, step: Step) -> Step:
    return eventually(lambda shape: bool(shape["code"] == code), step)


def start(call: str, step: Step) -> Step:
    return replace(step, kind="start", call=call)


def answered(call: str, name: str, keep_as: str = "") -> Step:
    return Step("await", name, call=call, keep=keep_as)


def quiet(call: str, name: str) -> Step:
    return Step("quiet", name, call=call)


def heard(connection: str, name: str) -> Step:
    return Step("heard", name, connection)


def silent(connection: str, name: str) -> Step:
    """No request of the broker arrives; `capture_broker` makes it a `heard` of nothing."""
    return Step("silent", name, connection)


def reply(connection: str, name: str, code: int = 0, body: bytes = b"", **fields: str) -> Step:
    return Step("reply", name, connection, Request(code, fields, body=body))


def close(connection: str) -> Step:
    return Step("close", f"close connection {connection}", connection)


def mark(name: str) -> Step:
    return Step("mark", f"time {name}", call=name)


# Messages


def properties(**pairs: Any) -> str:
    return properties_of(pairs)


def properties_of(pairs: dict[str, Any]) -> str:
    return "".join(
        f"{name}{NAME_SEPARATOR}{value}{ENTRY_SEPARATOR}" for name, value in pairs.items()
    )


def send(name: str, topic: str, body: bytes | str = b"hello", /, **changes: Any) -> Step:
    """Code 310 with the fields of a Java producer; `changes` by their letters."""
    fields = {"a": "p1", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": BORN_MS, "h": 0}
    fields |= {"i": "", "j": 0, "k": False, "l": None, "m": False, "n": None} | changes
    content = body.encode() if isinstance(body, str) else body
    return ask(name, 310, content, **{key: fields[key] for key in fields})


LONG_NAMES = {
    **{"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums"},
    **{"e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties"},
    **{"j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch"},
    "n": "bname",
}


def in_long_form(step: Step) -> Step:
    """The same send as code 10."""
    assert step.request is not None
    fields = {LONG_NAMES[key]: value for key, value in step.request.fields.items()}
    return changed(step, code=10, fields=fields)


def batch(name: str, topic: str, *messages: bytes, **changes: Any) -> Step:
    step = send(name, topic, b"".join(messages), **({"m": True} | changes))
    return changed(step, code=320)


def inner(
    body: bytes | str = b"hello", text: str = "", flag: int = 0, size: int | None = None
) -> bytes:
    """One message of a batch; `size` to lie about it."""
    content = body.encode() if isinstance(body, str) else body
    encoded = text.encode()
    total = 22 + len(content) + len(encoded) if size is None else size
    head = struct.pack(">iiiii", total, 0, 0, flag, len(content))
    return head + content + struct.pack(">h", len(encoded)) + encoded


def pull(name: str, topic: str, offset: Any = 0, /, code: int = 11, **changes: Any) -> Step:
    """A pull that carries its subscription and does not wait."""
    fields = {"consumerGroup": "g1", "topic": topic, "queueId": 0, "queueOffset": offset}
    fields |= {"maxMsgNums": 32, "sysFlag": SUBSCRIPTION, "commitOffset": 0}
    fields |= {"suspendTimeoutMillis": 0, "subscription": "*", "subVersion": SUB_VERSION}
    fields |= {"expressionType": None} | changes
    return ask(name, code, **fields)


# Clients


def subscription(topic: str, text: str = "*", kind: str = "TAG", **changes: Any) -> Shape:
    tags = [] if text == "*" or kind != "TAG" else [tag.strip() for tag in text.split("||")]
    entry = {"classFilterMode": False, "codeSet": [java_hash(tag) for tag in tags]}
    entry |= {"expressionType": kind, "subString": text, "subVersion": SUB_VERSION}
    return entry | {"tagsSet": tags, "topic": topic} | changes


def java_hash(text: str) -> int:
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def consumer(group: str, *subscriptions: Shape, **changes: Any) -> Shape:
    entry = {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY"}
    entry |= {"groupName": group, "messageModel": "CLUSTERING"}
    return entry | {"subscriptionDataSet": list(subscriptions), "unitMode": False} | changes


def heartbeat(
    name: str,
    client: str,
    *consumers: Shape,
    producers: tuple[str, ...] = (),
    **changes: Any,
) -> Step:
    body = {"clientID": client, "consumerDataSet": list(consumers), "heartbeatFingerprint": 0}
    body |= {"producerDataSet": [{"groupName": group} for group in producers]}
    return ask_json(name, 34, body | {"withoutSub": False} | changes)


def queue(topic: str, queue_id: int = 0, broker: str = "brk-a") -> Shape:
    return {"brokerName": broker, "queueId": queue_id, "topic": topic}


# Administration


def create_topic(name: str, topic: str, queues: int = 1, /, **changes: Any) -> Step:
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues}
    fields |= {"writeQueueNums": queues, "perm": 6, "topicFilterType": "SINGLE_TAG"}
    return ask(name, 17, **(fields | {"topicSysFlag": 0, "order": False} | changes))


def create_group(name: str, group: str, /, **changes: Any) -> Step:
    body: Shape = {"brokerId": 0, "consumeBroadcastEnable": True, "consumeEnable": True}
    body |= {"consumeFromMinEnable": True, "groupName": group, "retryMaxTimes": 16}
    body |= {"notifyConsumerIdsChangedEnable": True, "retryQueueNums": 1}
    return ask_json(name, 200, body | {"whichBrokerWhenConsumeSlowly": 1} | changes)


def update_config(name: str, **changes: str) -> Step:
    text = "".join(f"{key}={value}\n" for key, value in changes.items())
    return ask(name, 25, text.encode())
