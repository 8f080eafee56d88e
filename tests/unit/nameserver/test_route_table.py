"""Rules one by one; what they do together is searched in tests/property."""

import pytest
from msgspec.structs import replace

from emberq.model.data_version import DataVersion
from emberq.model.route import QueueData
from emberq.model.static_topic import StaticTopicMapping
from emberq.model.topic import TopicConfig
from emberq.nameserver.route_table import (
    MEMBER_TOPIC_PREFIX,
    MinBrokerIdChange,
    Registered,
    Registration,
    RegistrationRefused,
    RouteTable,
    Unregistration,
)

T1, T2, T3 = (TopicConfig(name=name, permission=6) for name in ("T1", "T2", "T3"))
MASTER = Registration(
    cluster="C1",
    broker_name="a",
    broker_id=0,
    address="m:1",
    ha_address="m:2",
    version=DataVersion(counter=1),
    topics={"T1": T1, "T2": T2},
)
SLAVE = replace(MASTER, broker_id=1, address="s:1", ha_address="s:2")
ACTING_MASTER = replace(MASTER, is_acting_master_enabled=True)
ACTING_SLAVE = replace(SLAVE, is_acting_master_enabled=True)


def leave(registration: Registration) -> Unregistration:
    return Unregistration(
        cluster=registration.cluster,
        broker_name=registration.broker_name,
        broker_id=registration.broker_id,
        address=registration.address,
    )


def registered(*registrations: Registration) -> RouteTable:
    table = RouteTable()
    for number, registration in enumerate(registrations):
        table.register(registration, connection=number, now_ms=0)
    return table


def permissions(table: RouteTable, topic: str) -> dict[str, int]:
    route = table.route(topic)
    assert route is not None
    return {queue.broker_name: queue.permission for queue in route.queues}


def addresses(table: RouteTable, *, acting: bool = False, topic: str = "T1") -> dict[int, str]:
    route = table.route(topic, uses_acting_masters=acting)
    assert route is not None
    return route.brokers[0].addresses


def test_a_master_brings_its_topics() -> None:
    table = registered(MASTER)

    assert sorted(table.topics()) == ["T1", "T2"]
    assert table.clusters() == {"C1": ["a"]}
    assert addresses(table) == {0: "m:1"}


def test_a_slave_brings_none_and_learns_its_master() -> None:
    table = registered(MASTER)

    outcome = table.register(replace(SLAVE, topics={"T3": T3, "T1": T1}), "s", 0)

    assert outcome == Registered(master_address="m:1", ha_address="m:2", is_first=True)
    assert table.route("T3") is None
    assert addresses(table) == {0: "m:1", 1: "s:1"}


def test_a_slave_without_a_live_master_learns_nothing() -> None:
    table = registered(SLAVE)

    assert table.register(SLAVE, "s", 0) == Registered()
    assert table.topics() == []


def test_a_single_topic_of_an_unknown_broker_is_refused_and_leaves_no_trace() -> None:
    table = RouteTable()

    with pytest.raises(RegistrationRefused):
        table.register(replace(MASTER, topics={"T1": T1}), "x", 0)

    assert table.brokers() == {}
    assert table.clusters() == {}
    assert table.connection_closed("x") == []


def test_a_single_topic_of_a_known_broker_is_added() -> None:
    table = registered(MASTER)

    table.register(replace(MASTER, topics={"T3": T3}, version=DataVersion(counter=2)), 0, 0)

    assert sorted(table.topics()) == ["T1", "T2", "T3"]


def test_no_topics_at_all_are_fine() -> None:
    assert registered(replace(MASTER, topics={})).clusters() == {"C1": ["a"]}


def test_known_topics_change_only_with_the_data_version() -> None:
    table = registered(MASTER)
    fewer = {"T1": replace(T1, permission=4), "T2": T2}

    table.register(replace(MASTER, topics=fewer), 0, 0)
    assert permissions(table, "T1") == {"a": 6}

    table.register(replace(MASTER, topics=fewer, version=DataVersion(counter=0)), 0, 0)
    assert permissions(table, "T1") == {"a": 4}


@pytest.mark.parametrize(
    "version",
    [
        DataVersion(counter=2),
        DataVersion(counter=1, state_version=1),
        DataVersion(counter=1, timestamp_ms=1),
    ],
)
def test_every_part_of_a_data_version_counts(version: DataVersion) -> None:
    table = registered(MASTER)

    table.register(replace(MASTER, topics={"T1": replace(T1, permission=4)}, version=version), 0, 0)

    assert permissions(table, "T1") == {"a": 4}
    assert table.version_of(MASTER.key) == version


def test_a_new_topic_needs_no_new_data_version() -> None:
    table = registered(MASTER)

    table.register(replace(MASTER, topics={"T1": T1, "T2": T2, "T3": T3}), 0, 0)

    assert permissions(table, "T3") == {"a": 6}


def test_topics_left_out_stay_unless_deletion_is_on() -> None:
    table = registered(MASTER)
    less = replace(MASTER, topics={"T1": T1}, version=DataVersion(counter=2))

    table.register(less, 0, 0)
    assert table.route("T2") is not None

    table.register(less, 0, 0, deletes_absent_topics=True)
    assert table.route("T2") is None
    assert table.route("T1") is not None


def test_a_slave_that_became_master_has_one_id() -> None:
    table = registered(MASTER, SLAVE)
    table.unregister([leave(MASTER)])

    table.register(replace(SLAVE, broker_id=0), "s", 0)

    assert addresses(table) == {0: "s:1"}


def test_a_second_address_takes_an_id_over() -> None:
    table = registered(MASTER)

    table.register(replace(MASTER, address="n:1"), "n", 0)
    table.unregister(table.connection_closed(0))

    assert addresses(table) == {0: "n:1"}


def test_a_lower_election_does_not_take_an_id_over() -> None:
    elected = replace(MASTER, version=DataVersion(counter=1, state_version=5))
    table = registered(elected)

    outcome = table.register(
        replace(MASTER, address="n:1", version=DataVersion(counter=9, state_version=4)), "n", 0
    )

    assert outcome == Registered()
    assert addresses(table) == {0: "m:1"}
    assert table.connection_closed("n") == []


def test_an_expired_election_binds_nobody() -> None:
    elected = replace(MASTER, version=DataVersion(counter=1, state_version=5))
    table = registered(elected, SLAVE)
    table.unregister([leave(elected)])

    table.register(replace(MASTER, address="n:1"), "n", 0)

    assert addresses(table)[0] == "n:1"


def test_the_last_member_takes_name_cluster_and_topics_along() -> None:
    other = replace(MASTER, broker_name="b", address="b:1", topics={"T2": T2, "T3": T3})
    table = registered(MASTER, SLAVE, other)

    table.unregister([leave(MASTER), leave(SLAVE)])

    assert sorted(table.topics()) == ["T2", "T3"]
    assert permissions(table, "T2") == {"b": 6}
    assert table.clusters() == {"C1": ["b"]}


def test_unregistering_a_stranger_changes_nothing() -> None:
    table = registered(MASTER)
    generation = table.generation

    table.unregister([leave(replace(MASTER, address="x:1"))])
    table.unregister([leave(replace(MASTER, broker_name="x"))])

    assert addresses(table) == {0: "m:1"}
    assert table.generation == generation
    assert table.connection_closed(0) == [leave(MASTER)]


def test_a_process_leaves_under_every_name_it_had() -> None:
    renamed = replace(MASTER, broker_name="b")
    table = registered(MASTER)
    table.register(renamed, 0, 0)

    table.unregister(table.connection_closed(0))

    assert table.brokers() == {}
    assert table.topics() == []


def test_all_brokers_of_a_closed_connection_leave() -> None:
    other = replace(MASTER, broker_name="b", address="b:1")
    table = RouteTable()
    table.register(MASTER, "shared", 0)
    table.register(other, "shared", 0)

    assert table.connection_closed("shared") == [leave(MASTER), leave(other)]


def test_only_the_latest_connection_is_a_broker_s_life() -> None:
    table = registered(MASTER)
    table.register(MASTER, "new", 0)

    assert table.connection_closed(0) == []
    assert table.connection_closed("new") == [leave(MASTER)]


def test_a_broker_expires_one_millisecond_after_its_own_timeout() -> None:
    table = registered(replace(MASTER, timeout_ms=1_000), replace(SLAVE, timeout_ms=None))

    assert table.expired(1_000) == []
    assert table.expired(1_001) == [leave(MASTER)]
    assert table.expired(120_000) == [leave(MASTER)]
    assert table.expired(120_001) == [leave(MASTER), leave(SLAVE)]


def test_a_sign_of_life_postpones_expiry() -> None:
    table = registered(replace(MASTER, timeout_ms=1_000))

    table.touch(MASTER.key, 900)

    assert table.expired(1_900) == []
    assert table.expired(1_901) == [leave(MASTER)]


def test_permissions_are_wiped_and_added_for_one_broker() -> None:
    odd = {"T1": replace(T1, permission=7), "T2": replace(T2, permission=2)}
    other = replace(MASTER, broker_name="b", address="b:1")
    table = registered(replace(MASTER, topics=odd), other)

    assert table.wipe_write_permission("a") == 2
    assert permissions(table, "T1") == {"a": 5, "b": 6}
    assert permissions(table, "T2") == {"a": 0, "b": 6}
    assert table.add_write_permission("a") == 2
    assert permissions(table, "T1") == {"a": 6, "b": 6}
    assert table.wipe_write_permission("nobody") == 0


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    other = replace(MASTER, cluster="C2", broker_name="b", address="b:1")
    table = registered(MASTER, other)

    table.delete_topic("T1", "C2")
    table.delete_topic("T2", "C9")
    assert permissions(table, "T1") == {"a": 6}
    assert permissions(table, "T2") == {"a": 6, "b": 6}

    table.delete_topic("T1", "C1")
    table.delete_topic("T2")
    assert table.topics() == []


def test_deleting_unknown_topics_needs_no_memory() -> None:
    table = RouteTable()

    table.delete_topic("nowhere")
    table.delete_topic("nowhere", "C1")

    assert table.changed_topics == set()


def test_a_topic_by_hand_needs_known_brokers() -> None:
    table = registered(MASTER)
    known = QueueData(broker_name="a", permission=6)

    assert table.register_topic("R1", [known])
    assert not table.register_topic("R2", [known, QueueData(broker_name="nobody")])
    assert table.register_topic("R3", [])

    assert sorted(table.topics()) == ["R1", "T1", "T2"]


def test_lists_of_topics_by_cluster_and_by_flag() -> None:
    flagged = {
        name: TopicConfig(name=name, system_flag=flag) for name, flag in (("U", 1), ("V", 2))
    }
    table = registered(MASTER, replace(MASTER, cluster="C2", broker_name="b", topics=flagged))

    assert sorted(table.topics_of_cluster("C1")) == ["T1", "T2"]
    assert sorted(table.topics_of_cluster("C2")) == ["U", "V"]
    assert table.topics_of_cluster("C9") == []
    assert table.topics_where(lambda flag: flag == 2) == ["V"]


def test_filter_servers_are_kept_replaced_and_removed() -> None:
    def shown(table: RouteTable) -> dict[str, list[str]]:
        route = table.route("T1")
        assert route is not None
        return route.filter_servers

    table = registered(replace(MASTER, filter_servers=["f1"]))
    assert shown(table) == {"m:1": ["f1"]}

    table.register(replace(MASTER, filter_servers=None), 0, 0)
    assert shown(table) == {"m:1": ["f1"]}

    table.register(replace(MASTER, filter_servers=["f2"]), 0, 0)
    assert shown(table) == {"m:1": ["f2"]}

    table.register(replace(MASTER, filter_servers=[]), 0, 0)
    assert shown(table) == {}


def test_static_topics_carry_their_mappings_as_long_as_they_exist() -> None:
    mapping = StaticTopicMapping(broker_name="a", topic="T1", queue_count=8)
    table = registered(replace(MASTER, queue_mappings={"T1": mapping}))

    route = table.route("T1")
    assert route is not None
    assert route.queue_mappings == {"a": mapping}

    table.delete_topic("T1")
    table.register(replace(MASTER, topics={"T1": T1}), 0, 0)
    route = table.route("T1")
    assert route is not None
    assert route.queue_mappings is None


class TestActingMaster:
    """Groups whose first slave serves while the master is away."""

    def test_the_first_slave_brings_topics_that_are_read_only(self) -> None:
        table = registered(replace(ACTING_SLAVE, broker_id=2), ACTING_SLAVE)

        assert permissions(table, "T1") == {"a": 4}

    def test_a_slave_that_only_knows_of_the_feature_keeps_permissions(self) -> None:
        table = registered(replace(SLAVE, is_acting_master_enabled=False))

        assert permissions(table, "T1") == {"a": 6}

    def test_only_the_first_slave_speaks(self) -> None:
        second = replace(ACTING_SLAVE, broker_id=2, address="t:1", topics={"T3": T3, "T1": T1})

        assert registered(ACTING_SLAVE, second).route("T3") is None

    def test_it_is_shown_as_master_where_the_configuration_says_so(self) -> None:
        table = registered(ACTING_SLAVE, replace(ACTING_SLAVE, broker_id=2, address="t:1"))

        assert addresses(table) == {1: "s:1", 2: "t:1"}
        assert addresses(table, acting=True) == {0: "s:1", 2: "t:1"}

    def test_it_is_not_shown_as_master_of_writable_topics_or_beside_a_master(self) -> None:
        table = registered(ACTING_SLAVE)
        table.add_write_permission("a")
        assert addresses(table, acting=True) == {1: "s:1"}

        table.register(ACTING_MASTER, "m", 0)
        assert addresses(table, acting=True) == {0: "m:1", 1: "s:1"}

    def test_it_does_not_hide_where_members_look_for_each_other(self) -> None:
        topic = MEMBER_TOPIC_PREFIX + "a"
        topics = {topic: TopicConfig(name=topic), "T1": T1}
        table = registered(replace(ACTING_SLAVE, topics=topics))

        assert addresses(table, acting=True, topic=topic) == {1: "s:1"}

    def test_topics_become_read_only_when_the_master_leaves_and_writable_when_it_is_back(
        self,
    ) -> None:
        table = registered(ACTING_MASTER, ACTING_SLAVE)

        table.unregister([leave(ACTING_MASTER)])
        assert permissions(table, "T1") == {"a": 4}

        table.register(ACTING_MASTER, "m", 0)
        assert permissions(table, "T1") == {"a": 6}

    def test_topics_of_other_groups_keep_their_permissions_when_a_master_leaves(self) -> None:
        table = registered(MASTER, SLAVE)

        table.unregister([leave(MASTER)])

        assert permissions(table, "T1") == {"a": 6}


class TestSmallestIds:
    """Who is told that a group's smallest id is another one."""

    def heard(self, *registrations: Registration) -> tuple[RouteTable, list[MinBrokerIdChange]]:
        changes: list[MinBrokerIdChange] = []
        table = RouteTable(changes.append)
        for registration in registrations:
            table.register(registration, "x", 0)
        return table, changes

    def test_members_hear_who_left(self) -> None:
        second = replace(ACTING_SLAVE, broker_id=2, address="t:1")
        table, changes = self.heard(ACTING_MASTER, ACTING_SLAVE, second)
        assert changes == []

        table.unregister([leave(ACTING_MASTER)])

        assert changes == [
            MinBrokerIdChange(
                broker_name="a",
                min_id=1,
                min_address="s:1",
                offline_address="m:1",
                ha_address=None,
                member_addresses=("s:1", "t:1"),
            )
        ]

    def test_members_that_were_there_hear_who_came(self) -> None:
        _, changes = self.heard(ACTING_SLAVE, ACTING_MASTER)

        assert changes == [
            MinBrokerIdChange(
                broker_name="a",
                min_id=0,
                min_address="m:1",
                offline_address=None,
                ha_address="m:2",
                member_addresses=("s:1",),
            )
        ]

    def test_a_larger_id_is_no_news(self) -> None:
        table, changes = self.heard(ACTING_MASTER, ACTING_SLAVE)

        table.unregister([leave(ACTING_SLAVE)])

        assert changes == []

    def test_groups_that_do_not_act_are_left_in_peace(self) -> None:
        table, changes = self.heard(SLAVE, MASTER)

        table.unregister([leave(MASTER)])

        assert changes == []
