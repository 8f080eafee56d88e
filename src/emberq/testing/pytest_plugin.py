"""Fixtures for users' own tests.

In conftest.py: `pytest_plugins = ["emberq.testing.pytest_plugin"]`. Then:

def test_orders(emberq_cluster):
    with Producer("shop", name_server=emberq_cluster.name_server) as producer:
        producer.send("orders", b"hello")
"""

from collections.abc import Iterator

import pytest

from emberq.testing.embedded import EmbeddedCluster, embedded_cluster


@pytest.fixture
def emberq_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster for one test, with empty queues."""
    with embedded_cluster(tmp_path_factory.mktemp("emberq")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def emberq_session_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[EmbeddedCluster]:
    """One cluster for all tests: faster, but topics are shared."""
    with embedded_cluster(tmp_path_factory.mktemp("emberq")) as cluster:
        yield cluster
