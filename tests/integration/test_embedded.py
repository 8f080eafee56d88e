"""The embedded cluster, as users' tests have it."""

from pathlib import Path

import pytest

from emberq import Producer, PullConsumer
from emberq.errors import ConfigError, TopicNotFound
from emberq.testing.embedded import EmbeddedCluster, embedded_cluster
from emberq.testing.pytest_plugin import emberq_cluster

pytestmark = pytest.mark.integration

__all__ = ["emberq_cluster"]


def test_messages_go_through_a_fixture(emberq_cluster: EmbeddedCluster) -> None:
    with Producer("shop", name_server=emberq_cluster.name_server) as producer:
        producer.send("orders", b"hello")
    with PullConsumer(
        "readers",
        name_server=emberq_cluster.name_server,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    ) as consumer:
        consumer.subscribe("orders")
        [message] = consumer.poll(1, timeout=15)

    assert message.body == b"hello"


def test_data_are_kept_where_they_are_told_to(tmp_path: Path) -> None:
    with (
        embedded_cluster(tmp_path) as cluster,
        Producer("shop", name_server=cluster.name_server) as producer,
    ):
        producer.send("orders", b"kept", keys="k")
    with (
        embedded_cluster(tmp_path) as cluster,
        Producer("shop", name_server=cluster.name_server) as producer,
    ):
        assert [each.body for each in producer.query_messages("orders", "k")] == [b"kept"]


def test_keys_of_the_broker_can_be_set() -> None:
    with embedded_cluster(autoCreateTopicEnable="false") as cluster:
        assert cluster.broker_address.startswith("127.0.0.1:")
        with (
            Producer("shop", name_server=cluster.name_server) as producer,
            pytest.raises(TopicNotFound, match="Create it"),
        ):
            producer.send("orders", b"x")


def test_a_mistake_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="flushDiskType"), embedded_cluster(flushDiskType="x"):
        pass
