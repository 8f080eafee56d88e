"""Replies are pushed to who waits for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emberq.broker.handlers.send_reply import PUSH_TIMEOUT_S, SendReplyHandler
from emberq.broker.handlers.send_targets import SendTargets
from emberq.broker.members import Client
from emberq.broker.producers import Producers
from emberq.errors import CallTimeout
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, answer
from emberq.record.properties import parse_properties
from tests.support.stores import HOST, START_MS, read_all
from tests.unit.broker.peers import Peer, ask
from tests.unit.broker.sending import BORN_HOST, REGION_FIELDS, Sending, send_request, sending

TOPIC = "DefaultCluster_REPLY_TOPIC"
WAITED_FOR = {"REPLY_TO_CLIENT": "c1", "CORRELATION_ID": "x"}


class Replying:
    def __init__(self, broker: Sending) -> None:
        self.broker = broker
        self.producers = Producers()
        SendReplyHandler(
            settings=broker.settings,
            targets=SendTargets(broker.settings, broker.topics, "10.1.2.3", broker.clock),
            producers=self.producers,
            store=broker.store,
            store_host=HOST,
            appender=broker.appender,
            statistics=broker.statistics,
            now_ms=broker.clock,
        ).add_to(broker.registry)

    def wait_as(self, requester: Peer, client_id: str = "c1") -> None:
        client = Client(requester.connection, client_id, "JAVA", 513)
        self.producers.register("askers", client, 0)

    async def reply(self, properties: dict[str, str], topic: str = TOPIC) -> Command:
        request = send_request(topic, b"42", properties, code=RequestCode.SEND_REPLY_MESSAGE_V2)
        replier = Peer("192.0.2.7:40000")
        replier.packed_peer = BORN_HOST  # type: ignore[attr-defined]  # of a real connection
        return await ask(self.broker.registry, replier, request.code, request.fields, b"42")


@pytest.fixture
def replying(tmp_path: Path) -> Iterator[Replying]:
    with sending(tmp_path) as broker:
        yield Replying(broker)


async def test_a_reply_is_pushed_and_stored(replying: Replying) -> None:
    requester = Peer(reply=answer)
    replying.wait_as(requester)

    response = await replying.reply(WAITED_FOR)

    [push] = requester.sent
    assert push.fields is not None
    shown = parse_properties(push.fields["properties"])
    assert (push.code, push.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"42")
    assert shown == {**WAITED_FOR, **REGION_FIELDS, "PUSH_REPLY_TIME": str(START_MS)}
    assert push.fields["bornHost"] == "192.0.2.7:40000"
    assert push.fields["storeHost"] == "10.1.2.3:10911"
    assert requester.timeouts_s == [PUSH_TIMEOUT_S]
    [record] = read_all(replying.broker.store, TOPIC, 0)
    assert response.code == 0
    assert response.fields == {
        **REGION_FIELDS,
        "msgId": f"{HOST.hex().upper()}{record.log_offset:016X}",
        "queueId": "0",
        "queueOffset": "0",
    }
    assert b"PUSH_REPLY_TIME" not in record.properties


async def test_a_reply_need_not_be_stored(replying: Replying) -> None:
    replying.broker.configure(store_reply_message_enable=False)
    replying.wait_as(Peer(reply=answer))

    response = await replying.reply(WAITED_FOR)

    assert response.code == 0
    assert response.fields == {**REGION_FIELDS, "msgId": "0", "queueId": "0", "queueOffset": "0"}
    assert read_all(replying.broker.store, TOPIC, 0) == []


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ({"REPLY_TO_CLIENT": "c9"}, "push reply message fail, channel of <c9> not found."),
        ({}, "reply message properties[REPLY_TO_CLIENT] is null"),
    ],
)
async def test_a_reply_that_nobody_waits_for_is_an_error(
    replying: Replying, properties: dict[str, str], remark: str
) -> None:
    response = await replying.reply(properties)

    assert (response.code, response.remark) == (1, remark)
    assert len(read_all(replying.broker.store, TOPIC, 0)) == 1  # stored all the same


@pytest.mark.parametrize(
    "requester",
    [Peer(reply=lambda call: answer(call, 1)), Peer(reply=CallTimeout("late"))],
    ids=["refused", "late"],
)
async def test_the_replier_hears_of_a_push_that_failed(replying: Replying, requester: Peer) -> None:
    replying.wait_as(requester)

    response = await replying.reply(WAITED_FOR)

    assert (response.code, response.remark) == (1, "push reply message to c1fail.")


async def test_topics_are_checked_as_those_of_sends(replying: Replying) -> None:
    response = await replying.reply(WAITED_FOR, topic="SCHEDULE_TOPIC_XXXX")

    assert (response.code, response.fields) == (16, REGION_FIELDS)
