"""Which registrations the table takes for a repetition of the last one."""

from msgspec.structs import replace

from emberq.model.data_version import DataVersion
from emberq.model.static_topic import StaticTopicMapping
from emberq.model.topic import TopicConfig
from emberq.nameserver.route_table import Registration, RouteTable

VERSION = DataVersion(counter=3)
MASTER = Registration(
    cluster="C",
    broker_name="a",
    broker_id=0,
    address="h1:1",
    version=VERSION,
    topics={"T1": TopicConfig(name="T1"), "T2": TopicConfig(name="T2")},
    fingerprint=b"body",
)
SLAVE = replace(MASTER, broker_id=1, address="h2:1")


def table_with(*registrations: Registration) -> RouteTable:
    table = RouteTable()
    for registration in registrations:
        table.register(registration, "connection", 0)
    return table


def is_repeated(table: RouteTable, said: Registration) -> bool:
    assert said.fingerprint is not None
    version = table.repeated_version(said.key, said.broker_name, said.broker_id, said.fingerprint)
    return version == VERSION


def test_the_same_body_from_the_same_broker_is_a_repetition() -> None:
    table = table_with(MASTER)

    assert is_repeated(table, MASTER)
    assert not is_repeated(table, replace(MASTER, fingerprint=b"other"))
    assert not is_repeated(table, replace(MASTER, address="h3:1"))
    assert not is_repeated(table, replace(MASTER, broker_name="b"))


def test_a_repetition_can_be_repeated() -> None:
    table = table_with(MASTER, replace(MASTER, topics={}, is_repetition=True))

    assert is_repeated(table, MASTER)
    assert table.topics() == ["T1", "T2"]


def test_after_a_topic_was_deleted_the_whole_table_is_wanted_once() -> None:
    table = table_with(MASTER)
    table.delete_topic("T1")

    assert not is_repeated(table, MASTER)

    table.register(MASTER, "connection", 0)
    assert is_repeated(table, MASTER)
    assert sorted(table.topics()) == ["T1", "T2"]


def test_a_broker_that_came_back_is_no_repetition() -> None:
    table = table_with(MASTER)
    table.unregister(table.connection_closed("connection"))

    assert not is_repeated(table, MASTER)


def test_a_slave_whose_topics_were_not_taken_is_no_repetition() -> None:
    assert not is_repeated(table_with(MASTER, SLAVE), SLAVE)


def test_a_slave_that_became_master_is_no_repetition() -> None:
    acting = replace(SLAVE, is_acting_master_enabled=True)
    table = table_with(acting)

    assert is_repeated(table, acting)
    assert not is_repeated(table, replace(acting, broker_id=0))


def test_mappings_of_static_topics_are_always_read() -> None:
    mapped = replace(MASTER, queue_mappings={"T1": StaticTopicMapping(topic="T1")})

    assert not is_repeated(table_with(mapped), mapped)
