import json
from typing import Any

import pytest

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.handlers.assignments import AssignmentHandlers
from emberq.broker.members import Client, Consumers, Manner
from emberq.broker.request_modes import RequestModes
from emberq.broker.topics import Topics
from emberq.errors import ProtocolError
from emberq.model.route import QueueData, TopicRoute
from emberq.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, ask

QUERY = {
    "topic": "T",
    "consumerGroup": "G",
    "clientId": "a",
    "strategyName": "AVG",
    "messageModel": "CLUSTERING",
}
MODE = {"topic": "T", "consumerGroup": "G", "mode": "PULL", "popShareQueueNum": 0}


class Assigning:
    def __init__(self, **config: Any) -> None:
        settings = BrokerConfig(**config)
        consumers = Consumers()
        manner = Manner(
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        )
        for client_id in "ab":
            consumers.register("G", Client(Peer(), client_id, "JAVA", 513), manner, [], 0)
        topics = Topics(settings, now_ms=lambda: 0)
        topics.put(TopicConfig(name="T"))
        self.saved = 0
        self.registry = HandlerRegistry()
        AssignmentHandlers(
            consumers=consumers,
            topics=topics,
            groups=Groups(is_auto_created=lambda: True, now_ms=lambda: 0),
            find_route=self.find_route,
            modes=RequestModes(),
            save_modes=self.save,
            config=lambda: settings,
        ).add_to(self.registry)

    async def find_route(self, topic: str) -> TopicRoute | None:
        if topic != "T":
            return None
        return TopicRoute(queues=[QueueData(broker_name="brk", permission=6, read_queue_count=3)])

    async def save(self) -> None:
        self.saved += 1

    async def ask(self, code: int, body: dict[str, Any]) -> Command:
        return await ask(self.registry, Peer(), code, body=json.dumps(body).encode())

    async def queues(self, **changed: Any) -> list[int] | None:
        answer = await self.ask(RequestCode.QUERY_ASSIGNMENT, QUERY | changed)
        assert answer.code == 0
        assignments = json.loads(answer.body).get("messageQueueAssignments")
        if assignments is None:
            return None
        assert {each["mode"] for each in assignments} <= {"PULL"}
        return [each["messageQueue"]["queueId"] for each in assignments]


async def test_every_member_of_a_group_gets_its_share() -> None:
    assigning = Assigning()

    assert await assigning.queues() == [0, 1]
    assert await assigning.queues(clientId="b") == [2]
    assert await assigning.queues(clientId="stranger") == []


async def test_broadcasting_groups_and_brokers_that_do_not_share_give_everything() -> None:
    assert await Assigning().queues(messageModel="BROADCASTING") == [0, 1, 2]
    assert await Assigning(server_load_balancer_enable=False).queues() == [0, 1, 2]


@pytest.mark.parametrize(
    "changed", [{"topic": "X"}, {"consumerGroup": "X"}, {"strategyName": "X"}, {"clientId": ""}]
)
async def test_what_cannot_be_decided_is_left_open(changed: dict[str, str]) -> None:
    assert await Assigning().queues(**changed) is None


@pytest.mark.parametrize("missing", ["topic", "consumerGroup", "messageModel"])
async def test_a_question_must_be_complete(missing: str) -> None:
    question = {name: value for name, value in QUERY.items() if name != missing}

    with pytest.raises(ProtocolError):
        await Assigning().ask(RequestCode.QUERY_ASSIGNMENT, question)


async def test_pulling_can_be_chosen_and_is_stored_before_the_answer() -> None:
    assigning = Assigning()

    answer = await assigning.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, MODE)

    assert (answer.code, assigning.saved) == (0, 1)
    table = await ask(assigning.registry, Peer(), RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    assert json.loads(table.body) == {"messageRequestModeMap": {"T": {"G": MODE}}}


@pytest.mark.parametrize(
    ("changed", "code", "remark"),
    [
        ({"topic": "%RETRY%G"}, 16, "retry topic is not allowed to set mode"),
        ({"topic": "X"}, 17, "topic[X] not exist"),
        ({"consumerGroup": "a b"}, 26, "subscription group does not exist"),
        ({"mode": "POP"}, 3, "POP is not offered by this broker"),
    ],
)
async def test_what_cannot_be_chosen_is_refused(
    changed: dict[str, str], code: int, remark: str
) -> None:
    assigning = Assigning()

    answer = await assigning.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, MODE | changed)

    assert (answer.code, answer.remark, assigning.saved) == (code, remark, 0)


async def test_a_mode_needs_topic_and_group() -> None:
    with pytest.raises(ProtocolError):
        await Assigning().ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {"mode": "PULL"})
