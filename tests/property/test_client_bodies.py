"""Whatever clients put into heartbeats and locks, it ends in an answer or a typed error."""

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from emberq.errors import ProtocolError
from emberq.protocol.codes import RequestCode
from tests.unit.broker.handlers.test_assignments import Assigning
from tests.unit.broker.handlers.test_heartbeat import Broker
from tests.unit.broker.handlers.test_locks import Locking
from tests.unit.broker.peers import Peer, ask

HEARTBEAT = {
    "clientID": "c",
    "consumerDataSet": [
        {
            "groupName": "G",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [
                {
                    "topic": "T",
                    "subString": "TagA",
                    "expressionType": "TAG",
                    "tagsSet": ["TagA"],
                    "codeSet": [2598919],
                    "subVersion": 1,
                    "classFilterMode": False,
                }
            ],
            "unitMode": False,
        }
    ],
    "producerDataSet": [{"groupName": "P"}],
    "heartbeatFingerprint": 7,
    "withoutSub": False,
}
LOCKS = {
    "consumerGroup": "G",
    "clientId": "c",
    "mqSet": [{"topic": "T", "brokerName": "brk", "queueId": 0}],
    "onlyThisBroker": False,
}
ASSIGNMENT = {
    "topic": "T",
    "consumerGroup": "G",
    "clientId": "a",
    "strategyName": "AVG",
    "messageModel": "CLUSTERING",
    "mode": "PULL",
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.lists(st.none() | st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.none() | st.integers(), max_size=3),
)


@st.composite
def mutated(draw: st.DrawFn, whole: Any) -> Any:
    """Some values replaced, some members and items left out."""
    if draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    if isinstance(whole, dict):
        return {
            name: draw(mutated(value))
            for name, value in whole.items()
            if draw(st.integers(0, 19)) > 0
        }
    if isinstance(whole, list):
        return [draw(mutated(each)) for each in whole]
    return whole


def answered(registry: Any, code: int, body: bytes) -> None:
    try:
        answer = asyncio.run(ask(registry, Peer(), code, body=body))
    except ProtocolError:
        return
    assert answer.code in (0, 1, 3, 16, 17, 23, 26)


@settings(max_examples=150, deadline=None)
@given(body=mutated(HEARTBEAT))
def test_heartbeats_leave_every_table_whole(body: Any) -> None:
    broker = Broker()

    answered(broker.registry, RequestCode.HEART_BEAT, json.dumps(body).encode())

    for name in broker.consumers.names():
        group = broker.consumers.get(name)
        assert group is not None
        assert group.members
        assert broker.groups.get(name) is not None
    for name in broker.producers.groups():
        assert broker.producers.members(name)


@settings(max_examples=80, deadline=None)
@given(body=mutated(LOCKS), code=st.sampled_from([RequestCode.LOCK_BATCH_MQ, RequestCode(42)]))
def test_locks_are_granted_or_refused(body: Any, code: RequestCode) -> None:
    answered(Locking().registry, code, json.dumps(body).encode())


@settings(max_examples=80, deadline=None)
@given(
    body=mutated(ASSIGNMENT),
    code=st.sampled_from([RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE]),
)
def test_assignments_are_answered(body: Any, code: RequestCode) -> None:
    answered(Assigning().registry, code, json.dumps(body).encode())


@settings(max_examples=80, deadline=None)
@given(body=st.binary(max_size=200))
def test_bytes_that_are_no_json_are_the_senders_error(body: bytes) -> None:
    answered(Broker().registry, RequestCode.HEART_BEAT, body)
    answered(Locking().registry, RequestCode.LOCK_BATCH_MQ, body)
