"""How tolerant reading of bodies is, and that nothing but ProtocolError leaves it."""

from itertools import product

import msgspec
import pytest

from emberq.errors import ProtocolError
from emberq.model.queue import MessageQueue
from emberq.model.route import BrokerData, QueueData, TopicRoute
from emberq.model.subscription import ConsumeFromWhere
from emberq.protocol.bodies.auth import User, Users
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.groups import GroupForbidden
from emberq.protocol.bodies.heartbeat import ConsumerPresence, Heartbeat
from emberq.protocol.bodies.offsets import ConsumerOffsetTable, QueueOffsets
from emberq.protocol.bodies.routes import KeyValueTable, TopicNames
from emberq.protocol.bodies.running import CachedQueue, DirectConsumeOutcome, DirectConsumeResult
from emberq.protocol.bodies.statistics import StatsItem
from emberq.protocol.fastjson import Dialect, write_json

QUEUE = MessageQueue("brk-a", 0, "T1")


class Four(msgspec.Struct, frozen=True, kw_only=True):
    a: str | None = None
    b: str | None = None
    c: list["Four"] | None = None
    d: str | None = None


@pytest.mark.parametrize("zero", ["0", '"0"', " 0 "])
def test_integer_keys_may_be_quoted_or_not(zero: str) -> None:
    body = decode_body(ConsumerOffsetTable, f'{{"offsetTable":{{"t@g":{{{zero}:12}}}}}}'.encode())

    assert body.offsets == {"t@g": {0: 12}}


@pytest.mark.parametrize(
    "key",
    [
        '{"brokerName":"brk-a","queueId":0,"topic":"T1"}',
        r'"{\"brokerName\":\"brk-a\",\"queueId\":0,\"topic\":\"T1\"}"',
        '{ "topic" : "T1", "queueId" : "0", "brokerName" : "brk-a" }',
    ],
)
def test_object_keys_may_be_quoted_or_not(key: str) -> None:
    body = decode_body(QueueOffsets, f'{{"offsetTable":{{{key}:"120"}}}}'.encode())

    assert body.offsets == {QUEUE: 120}


def test_object_keys_are_written_raw_or_quoted_by_dialect() -> None:
    body = QueueOffsets(offsets={QUEUE: 120})

    assert encode_body(body) == (
        b'{"offsetTable":{{"brokerName":"brk-a","queueId":0,"topic":"T1"}:120}}'
    )
    assert encode_body(body, Dialect.STRICT) == (
        rb'{"offsetTable":{"{\"brokerName\":\"brk-a\",\"queueId\":0,\"topic\":\"T1\"}":120}}'
    )


def test_unknown_members_are_ignored_and_null_means_absent() -> None:
    text = b'{"topicList":null,"brokerAddr":null,"later":{"a":[1]}}'

    assert decode_body(TopicNames, text) == TopicNames()


@pytest.mark.parametrize("number", ["5", '"5"', "5.0", '"5.0"'])
def test_whole_numbers_may_be_text_or_have_an_empty_fraction(number: str) -> None:
    body = decode_body(StatsItem, f'{{"sum":{number},"tps":"1.5","avgpt":null}}'.encode())

    assert body == StatsItem(sum=5, per_second=1.5)


def test_text_may_be_a_number_or_a_boolean() -> None:
    body = decode_body(KeyValueTable, b'{"table":{"a":1,"b":true,"c":null,"d":2.5}}')

    assert body.table == {"a": "1", "b": "true", "d": "2.5"}


@pytest.mark.parametrize(("text", "expected"), [("true", True), ('"True"', True), ("0", False)])
def test_booleans_may_be_text_or_numbers(text: str, expected: bool) -> None:
    body = decode_body(GroupForbidden, f'{{"readable":{text},"group":null}}'.encode())

    assert body.is_readable is expected


@pytest.mark.parametrize("outcome", ['"CR_ROLLBACK"', "2"])
def test_an_enum_may_be_its_name_or_its_position(outcome: str) -> None:
    body = decode_body(DirectConsumeResult, f'{{"consumeResult":{outcome}}}'.encode())

    assert body.outcome is DirectConsumeOutcome.CR_ROLLBACK


def test_an_unknown_enum_name_leaves_the_default() -> None:
    text = b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeFromWhere":"UNKNOWN"}]}'

    consumer = decode_body(Heartbeat, text).consumers[0]

    assert consumer == ConsumerPresence(group="g")
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


@pytest.mark.parametrize("outcome", ["-1", "6", "true", "[]"])
def test_an_impossible_enum_is_refused(outcome: str) -> None:
    with pytest.raises(ProtocolError, match="consumeResult"):
        decode_body(DirectConsumeResult, f'{{"consumeResult":{outcome}}}'.encode())


def test_both_spellings_of_dropped_are_read() -> None:
    assert decode_body(CachedQueue, b'{"dropped":true}').is_dropped
    assert decode_body(CachedQueue, b'{"droped":true}').is_dropped


def test_a_reference_stands_for_its_object() -> None:
    text = b'{"queueDatas":[{"brokerName":"b","perm":6},{"$ref":"$.queueDatas[0]"}]}'

    assert decode_body(TopicRoute, text).queues == [QueueData(broker_name="b", permission=6)] * 2


def test_a_body_may_be_a_list() -> None:
    users = [User(username="a"), User(username="b", type="Super")]

    assert encode_body(users) == b'[{"username":"a"},{"userType":"Super","username":"b"}]'
    assert decode_body(Users, encode_body(users)) == users


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (TopicNames(topics=["a"]), b'{"topicList":["a"]}'),
        (GroupForbidden(), b"{}"),
        (GroupForbidden(topic="t"), b'{"topic":"t"}'),
        (GroupForbidden(group="g"), b'{"group":"g"}'),
        (GroupForbidden(group="g", topic="t"), b'{"group":"g","topic":"t"}'),
        (
            TopicNames(topics=['":null', ',"x":null', '{"x":null,', ',",":null,']),
            rb'{"topicList":["\":null",",\"x\":null","{\"x\":null,",",\",\":null,"]}',
        ),
    ],
)
def test_absent_members_are_left_out_and_text_that_looks_like_them_stays(
    body: msgspec.Struct, text: bytes
) -> None:
    assert encode_body(body) == text
    assert decode_body(type(body), text) == body


def test_members_are_left_out_wherever_they_stand() -> None:
    texts = [None, "", ":null", 'x":null', "abc:null", ',"a":null', '{"a":null,']
    for a, b, d in product(texts, repeat=3):
        inner = Four(a=a, b=b, d=d)
        for body in (inner, Four(a=d, c=[inner, Four(), inner], d=a)):
            assert encode_body(body, Dialect.STRICT) == write_json(body, Dialect.STRICT)


def test_a_route_in_both_dialects() -> None:
    route = TopicRoute(
        brokers=[BrokerData(addresses={0: "a:1", 1: "b:2"}, broker_name="brk-a", cluster="C1")]
    )
    text = (
        '{"brokerDatas":[{"brokerAddrs":{%s:"a:1",%s:"b:2"},"brokerName":"brk-a","cluster":"C1",'
        '"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[]}'
    )

    assert encode_body(route).decode() == text % ("0", "1")
    assert encode_body(route, Dialect.STRICT).decode() == text % ('"0"', '"1"')


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"null",
        b"[]",
        b"5",
        b'{"offsetTable":[]}',
        b'{"offsetTable":{"x":1}}',
        b'{"offsetTable":{"5":1}}',
        b'{"offsetTable":{{"brokerName":"b"}:1}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":"1_0","topic":"t"}:1}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:"x"}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:1.5}}',
        b'{"offsetTable":{"$ref":"$"}}',
        b'{"offsetTable":',
    ],
)
def test_a_body_of_another_shape_is_a_protocol_error(data: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_body(QueueOffsets, data)


def test_a_null_in_a_list_has_no_default() -> None:
    with pytest.raises(ProtocolError, match="topicList"):
        decode_body(TopicNames, b'{"topicList":[null]}')


def test_nesting_without_end_in_an_unknown_member_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        decode_body(TopicNames, b'{"later":' + b"[" * 500_000)
