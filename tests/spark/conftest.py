"""One Spark session and one cluster for all tests here: starting them is most of the time."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from emberq import Producer
from tests.spark.cluster import Cluster, Topics, running_cluster
from tests.spark.session import WARNINGS_OF_SPARK, running_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first test waits for the JVM, and everything here for other processes.
TIMEOUT_S = 300
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            for mark in WARNINGS_OF_SPARK:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    with running_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def producer(cluster: Cluster) -> Iterator[Producer]:
    with Producer("writers", name_server=cluster.name_server) as one:
        yield one


@pytest.fixture
def topics(cluster: Cluster, producer: Producer, request: pytest.FixtureRequest) -> Topics:
    return Topics(cluster, producer, request.node.name)
