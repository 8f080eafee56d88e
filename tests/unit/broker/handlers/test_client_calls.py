from typing import Any

import pytest

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.handlers import client_calls
from emberq.broker.handlers.client_calls import (
    CALL_TIMEOUT_S,
    STATUS_TIMEOUT_S,
    ClientCallHandlers,
)
from emberq.broker.members import Client, Consumers, Manner
from emberq.broker.topics import Topics
from emberq.errors import CallTimeout, ConnectionClosed
from emberq.model.group import GroupConfig
from emberq.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, HeaderEncoding, answer
from emberq.protocol.fastjson_reader import read_json
from emberq.record.host import pack_host
from emberq.record.message_id import make_offset_id
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, Reply, ask

MESSAGE_ID = make_offset_id(pack_host("10.0.0.9", 10911), 4096)


class Calls:
    def __init__(self) -> None:
        config = BrokerConfig()
        self.consumers = Consumers()
        self.topics = Topics(config, now_ms=lambda: 0)
        self.groups = Groups(is_auto_created=lambda: True, now_ms=lambda: 0)
        self.registry = HandlerRegistry()
        ClientCallHandlers(
            consumers=self.consumers,
            topics=self.topics,
            groups=self.groups,
            record_at=self.record_at,
            broker_name="brk",
        ).add_to(self.registry)

    async def record_at(self, log_offset: int) -> bytes | None:
        return b"record" if log_offset == 4096 else None

    def come(
        self, client_id: str, reply: Reply | Exception | None = None, version: int = 513
    ) -> Peer:
        peer = Peer(reply=reply)
        manner = Manner(
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        )
        self.consumers.register("G", Client(peer, client_id, "GO", version), manner, [], 0)
        return peer

    async def ask(self, code: int, **fields: str) -> Command:
        return await ask(self.registry, Peer(), code, fields)


def says(body: bytes, code: int = 0, remark: str | None = None, **more: Any) -> Reply:
    def reply(request: Command) -> Command:
        response = answer(request, code, remark, {"x": "y"}, body)
        response.language = "GO"
        response.encoding = HeaderEncoding.BINARY
        return response

    return reply


async def test_running_info_is_asked_of_the_client_and_passed_back_byte_for_byte() -> None:
    calls = Calls()
    peer = calls.come("c", says(b'{"dropped":1,}'))

    got = await calls.ask(
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        consumerGroup="G",
        clientId="c",
        jstackEnable="true",
        unknown="kept",
    )

    assert (got.code, got.body, got.fields) == (0, b'{"dropped":1,}', {"x": "y"})
    assert (got.opaque, got.is_response, got.language) == (77, True, "GO")
    assert got.encoding is HeaderEncoding.JSON
    [call] = peer.sent
    assert call.code == RequestCode.GET_CONSUMER_RUNNING_INFO
    assert call.fields == {
        "consumerGroup": "G",
        "clientId": "c",
        "jstackEnable": "true",
        "unknown": "kept",
    }
    assert peer.timeouts_s == [CALL_TIMEOUT_S]


async def test_a_clients_refusal_is_passed_back_too() -> None:
    calls = Calls()
    calls.come("c", says(b"", 1, "The Consumer Group <G> not exist in this consumer"))

    got = await calls.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, consumerGroup="G", clientId="c")

    assert (got.code, got.remark) == (1, "The Consumer Group <G> not exist in this consumer")


@pytest.mark.parametrize(
    ("reply", "version", "code", "remark"),
    [
        (CallTimeout("no answer"), 513, 207, "consumer <G> <c> Timeout: no answer"),
        (ConnectionClosed("gone"), 513, 1, "invoke consumer <G> <c> Exception: gone"),
        (
            None,
            61,
            1,
            "The Consumer <c> Version <V3_1_7> too low to finish, please upgrade it to "
            "V3_1_8_SNAPSHOT",
        ),
    ],
)
async def test_a_client_that_does_not_answer_is_an_error(
    reply: Exception | None, version: int, code: int, remark: str
) -> None:
    calls = Calls()
    calls.come("c", reply, version)

    got = await calls.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, consumerGroup="G", clientId="c")

    assert (got.code, got.remark) == (code, remark)


async def test_a_client_that_is_not_there_cannot_be_asked() -> None:
    calls = Calls()
    calls.come("c")

    got = await calls.ask(
        RequestCode.GET_CONSUMER_RUNNING_INFO, consumerGroup="G", clientId="other"
    )
    nameless = await calls.ask(
        RequestCode.CONSUME_MESSAGE_DIRECTLY, consumerGroup="G", msgId=MESSAGE_ID
    )

    unnamed = await calls.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, consumerGroup="G")
    empty = await calls.ask(RequestCode.GET_CONSUMER_RUNNING_INFO)

    assert (got.code, got.remark) == (1, "The Consumer <G> <other> not online")
    assert (unnamed.code, unnamed.remark) == (1, "The Consumer <G> <null> not online")
    assert empty.code == 1
    assert (nameless.code, nameless.remark) == (1, "The Consumer <G> <null> not online")


async def test_a_message_is_consumed_directly_with_the_flags_of_its_group_and_topic() -> None:
    calls = Calls()
    calls.topics.put(TopicConfig(name="T", system_flag=1))
    calls.groups.put(GroupConfig(name="G", system_flag=2))
    peer = calls.come("c", says(b"done"))

    got = await calls.ask(
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        consumerGroup="G",
        clientId="c",
        msgId=MESSAGE_ID,
        topic="T",
    )

    assert got.body == b"done"
    [call] = peer.sent
    assert call.body == b"record"
    assert call.fields == {
        "consumerGroup": "G",
        "clientId": "c",
        "msgId": MESSAGE_ID,
        "topic": "T",
        "brokerName": "brk",
        "topicSysFlag": "1",
        "groupSysFlag": "2",
    }


async def test_without_a_topic_only_the_groups_flag_is_added() -> None:
    calls = Calls()
    peer = calls.come("c", says(b"done"))

    await calls.ask(
        RequestCode.CONSUME_MESSAGE_DIRECTLY, consumerGroup="G", clientId="c", msgId=MESSAGE_ID
    )

    assert (peer.sent[0].fields or {})["groupSysFlag"] == "0"
    assert "topicSysFlag" not in (peer.sent[0].fields or {})


@pytest.mark.parametrize(
    "message_id", ["", "no id", make_offset_id(pack_host("10.0.0.9", 10911), 5)]
)
async def test_a_message_that_is_not_there_is_not_consumed(message_id: str) -> None:
    calls = Calls()
    peer = calls.come("c", says(b"done"))

    got = await calls.ask(
        RequestCode.CONSUME_MESSAGE_DIRECTLY, consumerGroup="G", clientId="c", msgId=message_id
    )

    assert got.code == 1
    assert peer.sent == []


def offsets(offset: int) -> bytes:
    queue = '{"brokerName":"brk","queueId":0,"topic":"T"}'
    return f'{{"messageQueueTable":{{{queue}:{offset}}}}}'.encode()


async def test_the_status_of_all_clients_is_gathered_from_those_that_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_calls, "STATUS_CALLS_MAX", 2)
    calls = Calls()
    peer = calls.come("a", says(offsets(5)))
    calls.come("b", says(offsets(7)))
    calls.come("refuses", says(b"", 1))
    calls.come("nonsense", says(b"["))
    calls.come("silent", CallTimeout("no answer"))

    got = await calls.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="T", group="G")

    body: Any = read_json(got.body)
    assert (got.code, got.remark) == (0, "not set any response code")
    assert sorted(body["consumerTable"]) == ["a", "b"]
    assert list(body["consumerTable"]["a"].values()) == [5]
    [call] = peer.sent
    assert call.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    assert call.fields == {"topic": "T", "group": "G"}
    assert peer.timeouts_s == [STATUS_TIMEOUT_S]


async def test_the_status_of_one_client_is_asked_of_that_one_only() -> None:
    calls = Calls()
    calls.come("a", says(offsets(5)))
    peer = calls.come("b", says(offsets(7)))
    other = calls.come("c", says(offsets(9)))

    got = await calls.ask(
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="T", group="G", clientAddr="b"
    )

    body: Any = read_json(got.body)
    assert list(body["consumerTable"]) == ["b"]
    assert (len(peer.sent), len(other.sent)) == (1, 0)


async def test_no_status_of_a_group_that_is_offline_or_too_old() -> None:
    calls = Calls()
    status = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS

    offline = await calls.ask(status, topic="T", group="G")
    calls.come("old", version=27)
    too_old = await calls.ask(status, topic="T", group="G")

    assert (offline.code, offline.remark) == (
        1,
        "No Any Consumer online in the consumer group: [G]",
    )
    assert too_old.code == 1
    assert (too_old.remark or "").startswith("the client does not support this feature. version=V3")
