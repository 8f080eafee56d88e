"""The requests of the load program, as a Java client of 5.5.0 writes them.

Sends are encoded before the clock starts, one frame per place in flight: the opaque is that place,
so that an answer says which request it belongs to.
"""

import random
from functools import cache

import msgspec

from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import ONEWAY_BIT, Command
from emberq.protocol.frame import encode_frame
from emberq.protocol.versions import CURRENT
from emberq.record.batch import BatchElement, encode_batch

GROUP = "bench-producer"
CONSUMER_GROUP = "bench-consumer"
PLACE_FIRST = 100_000  # six digits, whatever the place
QUEUES = 4
# Eight queues of one topic, so that eight readers each have their own.
BACKLOG_QUEUES = 8
BATCH_COUNT = 32
TOPICS_PER_REQUEST = 500

_PULL_WITH_SUBSCRIPTION = 4
_PULL_MAY_WAIT = 2
_PUSH_WAIT_MS = 15_000


def topic_name(index: int) -> str:
    return f"bench-topic-{index:05d}"


def create_topics(count: int) -> list[bytes]:
    """Requests that create topics, a few hundred each."""
    requests = []
    for start in range(0, count, TOPICS_PER_REQUEST):
        names = [
            topic_name(index) for index in range(start, min(count, start + TOPICS_PER_REQUEST))
        ]
        requests.append(_create([_topic(name, QUEUES) for name in names]))
    return requests


def create_topic(name: str, queue_count: int) -> bytes:
    return _create([_topic(name, queue_count)])


def _create(topics: list[TopicConfig]) -> bytes:
    body = msgspec.json.encode({"topicConfigList": topics})
    return request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, body)


def _topic(name: str, queue_count: int) -> TopicConfig:
    return TopicConfig(name=name, read_queue_count=queue_count, write_queue_count=queue_count)


def send(topic: str, queue_id: int, body: bytes, place: int = 0, number: int = 0) -> bytes:
    """One message with a tag, a key and a client's id, as user programs send them."""
    return request(
        RequestCode.SEND_MESSAGE_V2,
        _send_fields(topic, queue_id, _properties(number), is_batch=False),
        body,
        place=place,
    )


def send_batch(topic: str, queue_id: int, body: bytes, place: int = 0, number: int = 0) -> bytes:
    elements = (
        BatchElement(body, _properties(number * BATCH_COUNT + inner).encode())
        for inner in range(BATCH_COUNT)
    )
    return request(
        RequestCode.SEND_BATCH_MESSAGE,
        _send_fields(topic, queue_id, _properties(number), is_batch=True),
        encode_batch(elements),
        place=place,
    )


def _send_fields(topic: str, queue_id: int, properties: str, *, is_batch: bool) -> dict[str, str]:
    return {
        "a": GROUP,
        "b": topic,
        "c": "TBW102",
        "d": str(QUEUES),
        "e": str(queue_id),
        "f": "0",
        "g": "1763375000000",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "l": "0",
        "m": "true" if is_batch else "false",
        "n": "bench-broker",
    }


def _properties(number: int) -> str:
    key = f"order-{number:08d}"
    unique = f"7F0000010B1C18B4AAC2{number:012X}"
    pairs = {"KEYS": key, "UNIQ_KEY": unique, "WAIT": "true", "TAGS": "TagA"}
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


@cache
def body_of(size: int) -> bytes:
    """Text that compresses about as badly as real messages do."""
    return random.Random(size).randbytes(size // 2 + 1).hex().encode()[:size]


class PullFrames:
    """Pulls of one queue: everything but place and offset is made beforehand."""

    def __init__(
        self,
        topic: str,
        queue_id: int,
        count_max: int,
        *,
        may_wait: bool,
        group: str = CONSUMER_GROUP,
    ) -> None:
        flag = _PULL_WITH_SUBSCRIPTION | (_PULL_MAY_WAIT if may_wait else 0)
        fields = {
            "bname": "bench-broker",
            "commitOffset": "0",
            "consumerGroup": group,
            "expressionType": "TAG",
            "maxMsgNums": str(count_max),
            "queueId": str(queue_id),
            "queueOffset": "987654321987654321",
            "subVersion": "1763375000000",
            "subscription": "*",
            "suspendTimeoutMillis": str(_PUSH_WAIT_MS),
            "sysFlag": str(flag),
            "topic": topic,
        }
        whole = request(RequestCode.PULL_MESSAGE, fields, place=0)
        header = whole[8:].replace(b"%", b"%%")
        header = header.replace(b"987654321987654321", b"%d")
        self._template = header.replace(str(PLACE_FIRST).encode(), b"%d")

    def at(self, offset: int, place: int = 0) -> bytes:
        header = self._template % (offset, PLACE_FIRST + place)
        size = len(header)
        return (size + 4).to_bytes(4, "big") + size.to_bytes(4, "big") + header


def request(
    code: int,
    fields: dict[str, str],
    body: bytes = b"",
    *,
    place: int = 0,
    is_oneway: bool = False,
) -> bytes:
    return encode_frame(
        Command(
            code=int(code),
            fields=fields,
            flag=ONEWAY_BIT if is_oneway else 0,
            language="JAVA",
            opaque=PLACE_FIRST + place,
            version=CURRENT,
            body=body,
        )
    )
