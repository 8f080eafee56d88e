"""Tests against a real broker: `pytest examples/testing`."""

from emberq import Producer, PullConsumer
from emberq.testing.embedded import EmbeddedCluster, embedded_cluster


def test_an_order_is_sent(emberq_cluster: EmbeddedCluster) -> None:
    with Producer("shop", name_server=emberq_cluster.name_server) as producer:
        producer.send("orders", b"hello")

    with PullConsumer(
        "test",
        name_server=emberq_cluster.name_server,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    ) as consumer:
        consumer.subscribe("orders")
        [message] = consumer.poll(1, timeout=10)
    assert message.body == b"hello"


def test_a_topic_must_be_created() -> None:
    with (
        embedded_cluster(autoCreateTopicEnable="false") as cluster,
        Producer("shop", name_server=cluster.name_server) as producer,
    ):
        producer.create_topic("orders", template_topic="SELF_TEST_TOPIC")
        assert producer.send("orders", b"hello").queue.topic == "orders"
