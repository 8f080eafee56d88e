import json
from collections.abc import Collection
from typing import Any

import pytest

from emberq.broker.config import BrokerConfig
from emberq.broker.groups import Groups
from emberq.broker.handlers import heartbeat
from emberq.broker.handlers.heartbeat import HeartbeatHandlers
from emberq.broker.members import Consumers
from emberq.broker.producers import Producers
from emberq.broker.topics import Topics
from emberq.errors import EmberqError, ProtocolError
from emberq.model.group import GroupConfig
from emberq.model.subscription import Subscription
from emberq.model.topic import TopicConfig
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import Command
from emberq.record.string_hash import tag_code
from emberq.remoting.registry import HandlerRegistry
from tests.unit.broker.peers import Peer, ask


class Filters:
    def __init__(self) -> None:
        self.registered: list[tuple[str, list[str | None]]] = []

    def register(self, group: str, subscriptions: Collection[Subscription], now_ms: int) -> None:
        self.registered.append((group, [each.expression for each in subscriptions]))


def compile_filter(expression: str) -> None:
    if expression == "a > > 5":
        raise EmberqError("does not compile")


class Broker:
    """The handlers with real tables."""

    def __init__(self, **config: Any) -> None:
        self.config = BrokerConfig(broker_name="brk", **config)
        self.now_ms = 1_000
        self.consumers, self.producers = Consumers(), Producers()
        self.topics = Topics(self.config, now_ms=self.clock)
        self.groups = Groups(
            is_auto_created=lambda: self.config.auto_create_subscription_group, now_ms=self.clock
        )
        self.filters = Filters()
        self.handlers = HeartbeatHandlers(
            consumers=self.consumers,
            producers=self.producers,
            topics=self.topics,
            groups=self.groups,
            filters=self.filters,
            compile_filter=compile_filter,
            config=lambda: self.config,
            now_ms=self.clock,
            steady_ms=self.clock,
        )
        self.registry = HandlerRegistry()
        self.handlers.add_to(self.registry)

    def clock(self) -> int:
        return self.now_ms

    async def beat(
        self,
        peer: Peer,
        *groups: dict[str, Any],
        client_id: str = "c",
        producers: tuple[str, ...] = (),
        **rest: Any,
    ) -> Command:
        body = {
            "clientID": client_id,
            "consumerDataSet": list(groups),
            "producerDataSet": [{"groupName": name} for name in producers],
            **rest,
        }
        return await ask(
            self.registry, peer, RequestCode.HEART_BEAT, body=json.dumps(body).encode()
        )

    async def members(self, group: str) -> Command:
        fields = {"consumerGroup": group}
        return await ask(self.registry, Peer(), RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)


def consumer(group: str, *topics: str, version: int = 1, **rest: Any) -> dict[str, Any]:
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [
            {"topic": topic, "subString": "*", "subVersion": version} for topic in topics
        ],
        **rest,
    }


async def test_a_heartbeat_registers_its_groups_and_says_that_the_second_form_is_known() -> None:
    broker, peer = Broker(), Peer()

    answer = await broker.beat(peer, consumer("G", "T"), producers=("P",))

    assert (answer.code, answer.remark) == (0, None)
    assert answer.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    members = await broker.members("G")
    assert (members.code, members.fields) == (0, {})
    assert members.body == b'{"consumerIdList":["c"]}'
    assert [member.client_id for member in broker.producers.members("P")] == ["c"]


async def test_a_group_without_members_has_no_list() -> None:
    answer = await Broker().members("G")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "no consumer for this group, G"
    assert answer.fields == {}


async def test_a_consumer_group_gets_its_retry_topic() -> None:
    broker = Broker()
    broker.groups.put(GroupConfig(name="G", retry_queue_count=3))
    broker.topics.put(TopicConfig(name="ordered", is_ordered=True))

    await broker.beat(Peer(), consumer("G", "T"), consumer("U", "ordered", unitMode=True))

    retries = broker.topics.get("%RETRY%G")
    assert retries is not None
    assert (retries.read_queue_count, retries.write_queue_count) == (3, 3)
    assert (retries.permission, retries.system_flag, retries.is_ordered) == (6, 0, False)
    unit = broker.topics.get("%RETRY%U")
    assert unit is not None
    assert (unit.system_flag, unit.is_ordered) == (2, True)


async def test_a_retry_topic_becomes_ordered_with_the_topics_of_its_group() -> None:
    broker, peer = Broker(), Peer()
    await broker.beat(peer, consumer("G", "T"))
    broker.topics.put(TopicConfig(name="T", is_ordered=True))

    await broker.beat(peer, consumer("G", "T", version=2))

    retries = broker.topics.get("%RETRY%G")
    assert retries is not None
    assert retries.is_ordered


async def test_an_unknown_group_is_skipped_when_groups_are_not_created() -> None:
    broker, peer = Broker(auto_create_subscription_group=False), Peer()

    answer = await broker.beat(peer, consumer("G", "T"), producers=("P",))

    assert answer.code == 0
    assert (await broker.members("G")).code == ResponseCode.SYSTEM_ERROR
    assert broker.topics.get("%RETRY%G") is None
    assert broker.producers.groups() == ["P"]
    broker.groups.put(GroupConfig(name="G"))
    await broker.beat(peer, consumer("G", "T"), producers=("P",))
    assert (await broker.members("G")).code == 0


async def test_pull_consumers_are_skipped_when_they_are_not_wanted() -> None:
    broker = Broker(reject_pull_consumer_enable=True)

    await broker.beat(Peer(), consumer("G", "T", consumeType="CONSUME_ACTIVELY"))

    assert (await broker.members("G")).code == ResponseCode.SYSTEM_ERROR


async def test_tag_codes_are_computed_here_and_filters_told() -> None:
    broker = Broker()
    subscription = {"topic": "T", "subString": "ä", "tagsSet": ["ä"], "codeSet": ["123"]}

    await broker.beat(Peer(), {**consumer("G"), "subscriptionDataSet": [subscription]})

    kept = broker.consumers.subscription("G", "T")
    assert kept is not None
    assert kept.tag_codes == [tag_code("ä")]
    assert broker.filters.registered == [("G", ["ä"])]


async def test_a_repeated_heartbeat_only_touches_its_members() -> None:
    broker, peer = Broker(), Peer()
    await broker.beat(peer, consumer("G", "T"), producers=("P",))
    broker.now_ms = 2_000

    answer = await broker.beat(peer, consumer("G", "T"), producers=("P",))

    assert answer.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert len(broker.filters.registered) == 1
    member = broker.consumers.member("G", "c")
    assert member is not None
    assert member.seen_at_ms == 2_000
    assert broker.producers.members("P")[0].seen_at_ms == 2_000


async def test_a_repeated_heartbeat_restores_what_others_took_away() -> None:
    broker, peer, other = Broker(), Peer(), Peer()
    beat = consumer("G", "T")
    await broker.beat(peer, beat, producers=("P",))

    await broker.beat(other, consumer("G", "U"), client_id="other")
    await broker.beat(peer, beat, producers=("P",))
    assert broker.consumers.subscription("G", "T") is not None

    broker.topics.remove("%RETRY%G")
    await broker.beat(peer, beat, producers=("P",))
    assert broker.topics.get("%RETRY%G") is not None

    broker.groups.remove("G")
    await broker.beat(peer, beat, producers=("P",))
    assert broker.groups.get("G") is not None

    fields = {"clientID": "c", "producerGroup": "P", "consumerGroup": "G"}
    await ask(broker.registry, peer, RequestCode.UNREGISTER_CLIENT, fields)
    await broker.beat(peer, beat, producers=("P",))
    assert broker.consumers.member("G", "c") is not None
    assert broker.producers.groups() == ["P"]

    broker.producers.unregister("P", peer)
    await broker.beat(peer, beat, producers=("P",))
    assert broker.producers.groups() == ["P"]


async def test_the_same_heartbeat_of_an_upgraded_client_is_read_again() -> None:
    broker, peer = Broker(), Peer()
    body = json.dumps({"clientID": "c", "consumerDataSet": [consumer("G", "T")]}).encode()

    for version, language in ((401, "JAVA"), (513, "JAVA"), (513, 9)):
        await ask(
            broker.registry,
            peer,
            RequestCode.HEART_BEAT,
            body=body,
            version=version,
            language=language,
        )

    member = broker.consumers.member("G", "c")
    assert member is not None
    assert (member.version, member.language) == (513, "GO")


async def test_a_fingerprint_that_the_group_did_not_have_says_that_it_changed() -> None:
    broker, peer = Broker(), Peer()

    async def is_changed(**beat: Any) -> str:
        answer = await broker.beat(peer, consumer("G", "T"), **beat)
        return (answer.fields or {})["IS_SUB_CHANGE"]

    assert await is_changed(heartbeatFingerprint=5) == "false"  # nothing to compare with
    assert await is_changed(heartbeatFingerprint=5) == "false"
    assert await is_changed(heartbeatFingerprint=6) == "true"
    assert await is_changed() == "true"
    assert await is_changed(heartbeatFingerprint=6) == "true"
    assert await is_changed(heartbeatFingerprint=6) == "false"


async def test_a_heartbeat_without_subscriptions_keeps_them_and_may_begin_a_group() -> None:
    broker, peer, other = Broker(), Peer(), Peer()
    await broker.beat(peer, consumer("G", "T"), heartbeatFingerprint=5)
    light: dict[str, Any] = {"heartbeatFingerprint": 5, "withoutSub": True}

    await broker.beat(peer, consumer("G"), **light)
    await broker.beat(other, consumer("H"), client_id="o", **light)

    assert broker.consumers.subscription("G", "T") is not None
    assert broker.consumers.member("H", "o") is not None
    assert len(broker.filters.registered) == 1


async def test_without_a_fingerprint_missing_subscriptions_are_none() -> None:
    broker, peer = Broker(), Peer()
    await broker.beat(peer, consumer("G", "T"))

    await broker.beat(peer, consumer("G"), withoutSub=True)

    assert broker.consumers.subscription("G", "T") is None


async def test_fingerprints_are_forgotten_above_their_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeat, "FINGERPRINTS_MAX", 1)
    broker, peer = Broker(), Peer()

    await broker.beat(peer, consumer("G"), heartbeatFingerprint=5)
    await broker.beat(peer, consumer("H"), heartbeatFingerprint=5)
    answer = await broker.beat(peer, consumer("G"), heartbeatFingerprint=6)

    assert (answer.fields or {})["IS_SUB_CHANGE"] == "false"


async def test_a_heartbeat_of_nobody_says_nothing_and_is_answered() -> None:
    broker = Broker()

    answer = await ask(broker.registry, Peer(), RequestCode.HEART_BEAT, body=b"{}")

    assert answer.code == 0
    assert answer.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}


async def test_too_many_groups_in_one_heartbeat_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeat, "GROUPS_PER_CLIENT_MAX", 1)
    broker = Broker()

    answer = await broker.beat(Peer(), consumer("G"), consumer("H"))

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert broker.consumers.names() == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        json.dumps(
            {"clientID": "c", "consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [{}]}]}
        ).encode(),
    ],
)
async def test_a_heartbeat_that_cannot_be_read_is_the_senders_error(body: bytes) -> None:
    broker = Broker()

    with pytest.raises(ProtocolError):
        await ask(broker.registry, Peer(), RequestCode.HEART_BEAT, body=body)

    assert broker.consumers.names() == []


async def test_a_closed_connection_is_not_remembered() -> None:
    broker, peer = Broker(), Peer()
    await broker.beat(peer, consumer("G", "T"))

    broker.handlers.connection_closed(peer.connection)
    broker.handlers.connection_closed(peer.connection)
    await broker.beat(peer, consumer("G", "T"))

    assert len(broker.filters.registered) == 2


async def test_unregistering_answers_ok_whoever_asks() -> None:
    broker, peer = Broker(), Peer()
    await broker.beat(peer, consumer("G", "T"), producers=("P",))
    unregister = {"clientID": "c", "producerGroup": "P", "consumerGroup": "G"}

    stranger = await ask(broker.registry, Peer(), RequestCode.UNREGISTER_CLIENT, unregister)
    assert broker.consumers.member("G", "c") is not None
    answer = await ask(broker.registry, peer, RequestCode.UNREGISTER_CLIENT, unregister)

    assert (stranger.code, answer.code, answer.fields) == (0, 0, {})
    assert broker.consumers.get("G") is None
    assert broker.producers.groups() == []


async def check(broker: Broker, expression_type: str | None, text: str) -> Command:
    body = {
        "clientId": "c",
        "group": "G",
        "subscriptionData": {"topic": "T", "expressionType": expression_type, "subString": text},
    }
    return await ask(
        broker.registry, Peer(), RequestCode.CHECK_CLIENT_CONFIG, body=json.dumps(body).encode()
    )


async def test_client_checks_compile_the_filter_if_filters_are_allowed() -> None:
    broker = Broker(enable_property_filter=True)

    assert (await check(broker, "TAG", "a > > 5")).code == 0
    assert (await check(broker, None, "a > > 5")).code == 0
    assert (await check(broker, "SQL92", "a > 5")).code == 0
    refused = await check(broker, "SQL92", "a > > 5")
    assert (refused.code, refused.remark) == (23, "does not compile")
    empty = await ask(broker.registry, Peer(), RequestCode.CHECK_CLIENT_CONFIG)
    assert empty.code == 0


async def test_client_checks_refuse_filters_that_are_switched_off() -> None:
    refused = await check(Broker(), "SQL92", "a > 5")

    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == "The broker does not support consumer to filter message by SQL92"
