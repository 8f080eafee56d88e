from msgspec.structs import replace

from emberq.model.route import BrokerData, QueueData, TopicRoute
from emberq.model.topic import TopicConfig
from emberq.nameserver.route_answers import SHARED_BODIES_MAX, RouteAnswers, within_zone
from emberq.nameserver.route_table import Registration, RouteTable
from emberq.protocol.fastjson import Dialect

MASTER = Registration(
    cluster="C1",
    broker_name="a",
    broker_id=0,
    address="m:1",
    topics={name: TopicConfig(name=name) for name in ("T1", "T2")},
)


class CountingTable(RouteTable):
    routes_built = 0

    def route(self, topic: str, *, uses_acting_masters: bool = False) -> TopicRoute | None:
        self.routes_built += 1
        return super().route(topic, uses_acting_masters=uses_acting_masters)


def test_both_dialects_are_written_as_official_servers_write_them() -> None:
    table = RouteTable()
    table.register(MASTER, "x", 0)
    answers = RouteAnswers(table, lambda _: "a:4", lambda: False)

    template = (
        '{"brokerDatas":[{"brokerAddrs":{%s:"m:1"},"brokerName":"a","cluster":"C1",'
        '"enableActingMaster":false}],"filterServerTable":{},"orderTopicConf":"a:4",'
        '"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":16,"topicSysFlag":0,'
        '"writeQueueNums":16}]}'
    )
    assert answers.get("T1", Dialect.STRICT) == (template % '"0"').encode()
    assert answers.get("T1", Dialect.FASTJSON) == (template % "0").encode()


def test_an_unchanged_route_is_encoded_once() -> None:
    table = CountingTable()
    table.register(MASTER, "x", 0)
    answers = RouteAnswers(table, lambda _: None, lambda: False)

    first = answers.get("T1", Dialect.STRICT)
    table.register(MASTER, "x", 1)

    assert answers.get("T1", Dialect.STRICT) is first
    assert table.routes_built == 1


def test_a_changed_topic_does_not_cost_the_others_their_answers() -> None:
    table = CountingTable()
    table.register(MASTER, "x", 0)
    answers = RouteAnswers(table, lambda _: None, lambda: False)
    first = answers.get("T1", Dialect.STRICT)
    second = answers.get("T2", Dialect.STRICT)

    table.register_topic("T2", [QueueData(broker_name="a", permission=4)])

    assert answers.get("T1", Dialect.STRICT) is first
    assert answers.get("T2", Dialect.STRICT) != second


def test_unknown_topics_are_not_remembered() -> None:
    table = CountingTable()
    answers = RouteAnswers(table, lambda _: None, lambda: False)

    assert answers.get("T1", Dialect.STRICT) is None
    table.register(MASTER, "x", 0)

    assert answers.get("T1", Dialect.STRICT) is not None


def test_what_depends_on_other_things_is_forgotten_when_told() -> None:
    table = RouteTable()
    table.register(MASTER, "x", 0)
    order: list[str | None] = [None]
    answers = RouteAnswers(table, lambda _: order[0], lambda: False)
    assert b"orderTopicConf" not in (answers.get("T1", Dialect.STRICT) or b"")

    order[0] = "a:4"
    answers.clear()

    assert b'"orderTopicConf":"a:4"' in (answers.get("T1", Dialect.STRICT) or b"")


def test_topics_with_equal_routes_share_one_body() -> None:
    table = RouteTable()
    table.register(MASTER, "x", 0)
    answers = RouteAnswers(table, lambda _: None, lambda: False)

    assert answers.get("T1", Dialect.STRICT) is answers.get("T2", Dialect.STRICT)


def test_bodies_that_nobody_shares_any_more_do_not_pile_up() -> None:
    table = RouteTable()
    table.register(MASTER, "x", 0)
    answers = RouteAnswers(table, lambda _: None, lambda: False)

    for count in range(SHARED_BODIES_MAX + 10):
        table.register_topic("T1", [QueueData(broker_name="a", read_queue_count=count)])
        assert f'"readQueueNums":{count},'.encode() in (answers.get("T1", Dialect.STRICT) or b"")

    assert len(answers._shared) <= SHARED_BODIES_MAX


def zoned(name: str, zone: str | None, master: str = "m") -> BrokerData:
    numbers = {0: f"{name}-{master}:1"} if master else {1: f"{name}-s:1"}
    return BrokerData(addresses=numbers, broker_name=name, cluster="C1", zone_name=zone)


def test_a_zone_keeps_its_own_brokers_and_groups_without_a_master() -> None:
    route = TopicRoute(
        brokers=[zoned("a", "Z1"), zoned("b", "z2"), zoned("c", None), zoned("d", "z2", "")],
        queues=[QueueData(broker_name=name) for name in "abcd"],
        filter_servers={"a-m:1": ["f1"], "b-m:1": ["f2"]},
    )

    kept = within_zone(route, "z1")

    assert kept == replace(
        route,
        brokers=[route.brokers[0], route.brokers[3]],
        queues=[QueueData(broker_name="a"), QueueData(broker_name="d")],
        filter_servers={"a-m:1": ["f1"]},
    )
