import json

from emberq.broker.handlers.connection_lists import ConnectionListHandlers
from emberq.broker.members import Client, Consumers, Manner
from emberq.broker.producers import Producers
from emberq.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, ask

STARTED_AT_MS = 1_700_000_000_000
CLIENT = {"clientAddr": "10.0.0.3:50123", "clientId": "c", "language": "GO", "version": 401}


class Lists:
    def __init__(self) -> None:
        consumers, producers = Consumers(), Producers()
        client = Client(Peer("10.0.0.3:50123"), "c", "GO", 401)
        manner = Manner(
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        )
        consumers.register("G", client, manner, [Subscription(topic="T", expression="*")], 5)
        producers.register("P", client, 5)
        self.registry = HandlerRegistry()
        ConnectionListHandlers(
            consumers, producers, now_ms=lambda: STARTED_AT_MS + 7, steady_ms=lambda: 7
        ).add_to(self.registry)

    async def ask(self, code: int, **fields: str) -> Command:
        return await ask(self.registry, Peer(), code, fields)


async def test_consumers_are_listed_with_what_they_subscribe() -> None:
    answer = await Lists().ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="G")

    body = json.loads(answer.body)
    assert body["connectionSet"] == [CLIENT]
    assert body["consumeType"] == "CONSUME_PASSIVELY"
    assert body["messageModel"] == "CLUSTERING"
    assert body["consumeFromWhere"] == "CONSUME_FROM_LAST_OFFSET"
    assert body["subscriptionTable"]["T"]["subString"] == "*"


async def test_a_group_that_is_not_online_has_a_code_of_its_own() -> None:
    answer = await Lists().ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="X")

    assert (answer.code, answer.remark) == (206, "the consumer group[X] not online")


async def test_producers_of_a_group_are_listed() -> None:
    lists = Lists()

    answer = await lists.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="P")
    unknown = await lists.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="X")

    assert json.loads(answer.body) == {"connectionSet": [CLIENT]}
    assert (unknown.code, unknown.remark) == (1, "the producer group[X] not exist")


async def test_all_producers_are_listed_with_the_time_of_their_last_heartbeat() -> None:
    answer = await Lists().ask(RequestCode.GET_ALL_PRODUCER_INFO)

    assert json.loads(answer.body) == {
        "data": {
            "P": [
                {
                    "clientId": "c",
                    "language": "GO",
                    "lastUpdateTimestamp": STARTED_AT_MS + 5,
                    "remoteIP": "/10.0.0.3:50123",
                    "version": 401,
                }
            ]
        }
    }
