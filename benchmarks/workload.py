"""The requests of the load program, encoded before the clock starts.

All numbers in a request have a fixed width, so that every right answer of one server has the same
size and the load program can check an answer by comparing a few bytes.
"""

import zlib
from functools import cache

from emberq.model.data_version import DataVersion
from emberq.model.route import BrokerData, QueueData, TopicRoute
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.registration import (
    CHECKSUM_MASK,
    RegisterBrokerBody,
    encode_registration,
)
from emberq.protocol.bodies.topics import TopicTable
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.protocol.fastjson import Dialect
from emberq.protocol.frame import encode_frame
from emberq.protocol.versions import CURRENT

CLUSTER = "bench-cluster"
OPAQUE_FIRST = 100_000  # six digits for every topic of the largest table
OPAQUE_LAST = 999_999
UNSUPPORTED_CODE = 29_999
ECHO_CODE = RequestCode.SEND_MESSAGE  # what an echo server takes for its own
ECHO_BODY_SIZE_BYTES = 1024
_QUEUE_COUNTS = (4, 5, 6, 7, 8, 9)  # one digit each
_VERSION_TIMESTAMP_MS = 1_760_000_000_000


def topic_name(index: int) -> str:
    return f"bench-topic-{index:05d}"


def route_requests(topic_count: int) -> list[bytes]:
    """One look-up (105) per topic; the opaque tells which."""
    return [
        _request(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": topic_name(index)},
            opaque=OPAQUE_FIRST + index,
        )
        for index in range(topic_count)
    ]


def unknown_route_request() -> bytes:
    return _request(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "bench-unknown"}, opaque=OPAQUE_LAST
    )


def expected_route(index: int, broker_count: int) -> bytes:
    """The body that answers the look-up of one topic."""
    return _route_body(_queue_count(index), broker_count)


@cache
def _route_body(queue_count: int, broker_count: int) -> bytes:
    brokers = [
        BrokerData(
            cluster=CLUSTER,
            broker_name=_broker_name(broker),
            addresses={0: _broker_address(broker)},
            is_acting_master_enabled=False,
        )
        for broker in range(broker_count)
    ]
    queues = [
        QueueData(
            broker_name=_broker_name(broker),
            permission=6,
            read_queue_count=queue_count,
            write_queue_count=queue_count,
        )
        for broker in range(broker_count)
    ]
    return encode_body(TopicRoute(brokers=brokers, queues=queues), Dialect.STRICT)


def registration_request(broker: int, topic_count: int, *, edition: int = 0) -> bytes:
    """A broker's whole table (103) as plain JSON, as 5.x brokers send it every 30 s.

    Each edition has its own data version and differs in the queues of one topic.
    """
    topics = {}
    for index in range(topic_count):
        count = _queue_count(index + edition if index == 0 else index)
        name = topic_name(index)
        topics[name] = TopicConfig(name=name, read_queue_count=count, write_queue_count=count)
    version = DataVersion(counter=1 + edition, timestamp_ms=_VERSION_TIMESTAMP_MS + edition)
    body = encode_registration(
        RegisterBrokerBody(topic_table=TopicTable(data_version=version, topics=topics)),
        is_compressed=False,
    )
    fields = {
        "bodyCrc32": str(zlib.crc32(body) & CHECKSUM_MASK),
        "brokerAddr": _broker_address(broker),
        "brokerId": "0",
        "brokerName": _broker_name(broker),
        "clusterName": CLUSTER,
        "compressed": "false",
        "haServerAddr": _broker_address(broker),
    }
    return _request(RequestCode.REGISTER_BROKER, fields, body, opaque=OPAQUE_FIRST + broker)


def unsupported_request() -> bytes:
    """A code that nobody serves: the way through a server without any work at its end."""
    return _request(UNSUPPORTED_CODE, {}, opaque=OPAQUE_FIRST)


def echo_request() -> bytes:
    return _request(ECHO_CODE, {}, bytes(ECHO_BODY_SIZE_BYTES), opaque=OPAQUE_FIRST)


def _request(code: int, fields: dict[str, str], body: bytes = b"", *, opaque: int) -> bytes:
    """As a Java client of 5.5.0 writes it."""
    return encode_frame(
        Command(
            code=int(code),
            fields=fields,
            language="JAVA",
            opaque=opaque,
            version=CURRENT,
            body=body,
        )
    )


def _broker_name(broker: int) -> str:
    return f"bench-broker-{broker:02d}"


def _broker_address(broker: int) -> str:
    return f"10.0.0.{10 + broker}:10911"


def _queue_count(index: int) -> int:
    return _QUEUE_COUNTS[index % len(_QUEUE_COUNTS)]
