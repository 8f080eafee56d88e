import json

from emberq.broker.config import BrokerConfig
from emberq.broker.handlers.group_queries import NO_CORRECTION, GroupQueryHandlers
from emberq.broker.members import Client, Consumers, Manner
from emberq.broker.topics import Topics
from emberq.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.offsets import CorrectionOffsets
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, ask

Table = dict[tuple[str, str], dict[int, int]]


class Offsets:
    """group, topic → queue id → offset"""

    def __init__(self, table: Table) -> None:
        self.table = table

    def of(self, group: str, topic: str) -> dict[int, int]:
        return self.table.get((group, topic), {})

    def topics_of(self, group: str) -> set[str]:
        return {topic for name, topic in self.table if name == group}

    def groups_of(self, topic: str) -> set[str]:
        return {group for group, name in self.table if name == topic}

    def remove_group(self, group: str) -> None:
        self.table = {key: each for key, each in self.table.items() if key[0] != group}

    def clone(self, source: str, target: str, topic: str) -> None:
        self.table[target, topic] = dict(self.of(source, topic))


class Queries:
    def __init__(self, table: Table | None = None) -> None:
        self.offsets = Offsets(table or {})
        self.consumers = Consumers()
        topics = Topics(BrokerConfig(), now_ms=lambda: 0)
        topics.put(TopicConfig(name="T"))
        self.registry = HandlerRegistry()
        GroupQueryHandlers(
            consumers=self.consumers,
            offsets=self.offsets,
            topics=topics,
            min_offset=lambda topic, queue_id: 10,
            broker_address="10.0.0.9:10911",
        ).add_to(self.registry)

    def subscribe(self, group: str, *topics: str) -> None:
        manner = Manner(
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        )
        subscriptions = [Subscription(topic=topic, expression="*") for topic in topics]
        client = Client(Peer(), "c", "JAVA", 513)
        self.consumers.register(group, client, manner, subscriptions, 0)

    async def ask(self, code: int, **fields: str) -> Command:
        return await ask(self.registry, Peer(), code, fields)


async def test_a_topic_is_consumed_by_those_online_and_those_with_offsets() -> None:
    queries = Queries({("offline", "T"): {0: 1}, ("online", "T"): {0: 1}, ("x", "U"): {0: 1}})
    queries.subscribe("online", "T")
    queries.subscribe("new", "T")

    answer = await queries.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="T")
    nobody = await queries.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="Nowhere")

    assert json.loads(answer.body) == {"groupList": ["new", "offline", "online"]}
    assert json.loads(nobody.body) == {"groupList": []}


async def test_the_topics_of_a_group_are_those_with_offsets() -> None:
    queries = Queries({("G", "T"): {0: 1}, ("G", "U"): {0: 1}, ("H", "V"): {0: 1}})

    answer = await queries.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="G")

    assert json.loads(answer.body) == {"brokerAddr": "10.0.0.9:10911", "topicList": ["T", "U"]}


async def test_a_subscription_is_shown_if_there_is_one() -> None:
    queries = Queries()
    queries.subscribe("G", "T")

    found = await queries.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, group="G", topic="T")
    absent = await queries.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, group="X", topic="T")
    nameless = await queries.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, group="G")

    assert json.loads(found.body)["subscriptionData"]["subString"] == "*"
    assert json.loads(absent.body) == {"group": "X", "topic": "T"}
    assert nameless.code == 1


async def corrected(queries: Queries, **fields: str) -> dict[int, int]:
    asked = {"topic": "T", "compareGroup": "G"} | fields
    answer = await queries.ask(RequestCode.QUERY_CORRECTION_OFFSET, **asked)
    assert answer.code == 0
    return decode_body(CorrectionOffsets, answer.body).offsets


async def test_corrections_are_the_smallest_offsets_but_where_the_group_is_behind_them() -> None:
    queries = Queries(
        {
            ("G", "T"): {0: 50, 1: 5, 2: 9},
            ("H", "T"): {0: 40, 1: 60, 3: 70},
            ("H", "U"): {0: 1},
        }
    )

    assert await corrected(queries) == {0: 40, 1: NO_CORRECTION, 2: NO_CORRECTION, 3: 70}
    compared_with_nobody = await queries.ask(RequestCode.QUERY_CORRECTION_OFFSET, topic="T")
    assert decode_body(CorrectionOffsets, compared_with_nobody.body).offsets == {
        0: 40,
        1: 60,
        3: 70,
    }


async def test_groups_left_out_of_a_correction_lose_their_offsets_as_officially() -> None:
    queries = Queries({("G", "T"): {0: 50}, ("H", "T"): {0: 40}, ("H", "U"): {0: 1}})

    assert await corrected(queries, filterGroups="H, ,X") == {0: 50}
    assert queries.offsets.table == {("G", "T"): {0: 50}}


async def clone(queries: Queries, **fields: str) -> Command:
    asked = {"srcGroup": "G", "destGroup": "H"} | fields
    return await queries.ask(RequestCode.CLONE_GROUP_OFFSET, **asked)


async def test_offsets_of_one_topic_are_copied() -> None:
    queries = Queries({("G", "T"): {0: 5}, ("G", "gone"): {0: 5}})

    assert (await clone(queries, topic="T")).code == 0
    assert (await clone(queries, topic="gone")).code == 0
    assert (await clone(queries)).code == 0

    assert queries.offsets.of("H", "T") == {0: 5}
    assert queries.offsets.topics_of("H") == {"T"}


async def test_offsets_of_a_topic_that_the_online_group_left_are_copied_only_when_asked() -> None:
    queries = Queries({("G", "T"): {0: 5}})
    queries.subscribe("G", "U")

    await clone(queries, topic="T")
    assert queries.offsets.topics_of("H") == set()
    await clone(queries, topic="T", offline="true")
    assert queries.offsets.topics_of("H") == {"T"}
