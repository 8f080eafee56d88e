"""Topics of a broker."""

from msgspec.structs import replace

from emberq.broker.config import BrokerConfig
from emberq.broker.topics import Topics, topic_name_trouble
from emberq.model.data_version import DataVersion
from emberq.model.topic import TopicConfig
from emberq.protocol.bodies.topics import TopicTable

CONFIG = BrokerConfig(broker_name="broker-a")


def new_topics(config: BrokerConfig = CONFIG, stored: TopicTable | None = None) -> Topics:
    return Topics(config, now_ms=lambda: 1_000, stored=stored)


def test_a_new_broker_has_the_official_topics_of_its_own() -> None:
    queues = {name: topic.write_queue_count for name, topic in new_topics().all().items()}

    assert queues == {
        "BenchmarkTest": 1024,
        "DefaultCluster": 16,
        "DefaultCluster_REPLY_TOPIC": 1,
        "OFFSET_MOVED_EVENT": 1,
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": 1,
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": 1,
        "RMQ_SYS_TRANS_HALF_TOPIC": 1,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": 1,
        "SCHEDULE_TOPIC_XXXX": 18,
        "SELF_TEST_TOPIC": 1,
        "TBW102": 8,
        "broker-a": 1,
        "rmq_sys_REVIVE_LOG_DefaultCluster": 8,
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": 1,
        "rmq_sys_wheel_timer": 1,
    }


def test_a_send_makes_a_topic_after_its_template() -> None:
    topics = new_topics()
    changed: list[str | None] = []
    topics.on_change(changed.append)

    made = topics.create_for_send("orders", "TBW102", 4)

    assert made == TopicConfig(name="orders", read_queue_count=4, write_queue_count=4)
    assert type(made.permission) is int  # a flag's name would reach the wire
    assert topics.get("orders") == made
    assert changed == ["orders"]


def test_a_new_topic_has_no_more_queues_than_its_template() -> None:
    topics = new_topics()

    many = topics.create_for_send("many", "TBW102", 100)
    none = topics.create_for_send("none", "TBW102", -3)

    assert many is not None
    assert many.write_queue_count == 8
    assert none is not None
    assert none.write_queue_count == 0


def test_without_a_template_that_may_be_inherited_there_is_no_topic() -> None:
    topics = new_topics()

    assert topics.create_for_send("orders", "unknown", 4) is None
    assert topics.create_for_send("orders", "BenchmarkTest", 4) is None
    assert topics.get("orders") is None


def test_auto_creation_can_be_switched_off_and_on_again() -> None:
    topics = new_topics()

    topics.set_auto_creation(False, 8)
    off = topics.create_for_send("orders", "TBW102", 4)
    topics.set_auto_creation(True, 8)
    on = topics.create_for_send("orders", "TBW102", 4)

    assert off is None
    assert on is not None


def test_auto_creation_switched_on_later_brings_its_template() -> None:
    topics = new_topics(replace(CONFIG, auto_create_topic_enable=False))
    assert topics.get("TBW102") is None

    topics.set_auto_creation(True, 8)

    assert topics.create_for_send("orders", "TBW102", 4) is not None


def test_a_stored_template_follows_the_switch_at_the_next_start() -> None:
    off = new_topics(replace(CONFIG, auto_create_topic_enable=False), new_topics().table())
    on = new_topics(stored=off.table())

    assert off.create_for_send("orders", "TBW102", 4) is None
    assert on.create_for_send("orders", "TBW102", 4) is not None


def test_stored_topics_win_over_built_in_ones() -> None:
    stored = TopicTable(
        data_version=DataVersion(counter=7),
        topics={"BenchmarkTest": TopicConfig(name="BenchmarkTest", write_queue_count=2)},
    )

    topic = new_topics(stored=stored).get("BenchmarkTest")

    assert topic is not None
    assert topic.write_queue_count == 2


def test_a_start_without_news_keeps_the_version() -> None:
    first = new_topics()
    second = new_topics(stored=first.table())

    assert first.version == DataVersion(counter=0, timestamp_ms=1_000)
    assert second.version == first.version


def test_a_start_with_news_has_a_new_version() -> None:
    first = new_topics()
    second = new_topics(replace(CONFIG, trace_topic_enable=True), first.table())

    assert second.version.counter == first.version.counter + 1


def test_every_change_has_a_version_of_its_own() -> None:
    topics = new_topics()
    counter = topics.version.counter

    topics.create_if_absent("%RETRY%g", 1)
    topics.create_if_absent("%RETRY%g", 1)
    is_changed = topics.put(TopicConfig(name="%RETRY%g", read_queue_count=2, write_queue_count=2))
    is_same = topics.put(TopicConfig(name="%RETRY%g", read_queue_count=2, write_queue_count=2))
    is_removed = topics.remove("%RETRY%g")
    is_gone = topics.remove("%RETRY%g")

    assert topics.version.counter == counter + 3
    assert (is_changed, is_same, is_removed, is_gone) == (True, False, True, False)


def test_ordered_topics_of_the_name_servers_are_marked() -> None:
    topics = new_topics()
    topics.put(TopicConfig(name="orders"))

    topics.mark_ordered({"orders": "broker-a:4", "elsewhere": "broker-b:4"})

    topic = topics.get("orders")
    assert topic is not None
    assert topic.is_ordered


def test_system_topics_are_known_by_name_and_prefix() -> None:
    topics = new_topics()

    own = ("TBW102", "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "rmq_sys_x")
    assert all(topics.is_system(name) for name in own)
    assert not topics.is_system("orders")
    assert not topics.is_system("%RETRY%g")


def test_names_are_checked_in_the_official_words() -> None:
    assert topic_name_trouble("%RETRY%a-b_c|9") is None
    assert topic_name_trouble(" ") == "The specified topic is blank."
    assert topic_name_trouble("a b") == (
        "The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    )
    assert topic_name_trouble("a" * 127) is None
    assert topic_name_trouble("a" * 128) == (
        f"The specified topic: {'a' * 128}, is longer than topic max length: 127"
    )
    assert topic_name_trouble("%DLQ%" + "a" * 250) is None
    assert topic_name_trouble("%RETRY%" + "a" * 250) == (
        f"The specified topic is DLQ or Retry topic: %RETRY%{'a' * 250}, "
        "and it's longer than topic max length: 255"
    )
