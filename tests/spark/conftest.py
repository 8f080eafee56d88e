"""One Spark session and one cluster for all tests here: starting them is most of the time."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from emberq import Producer
from tests.spark.cluster import Cluster, Topics, running_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first test waits for the JVM, and everything here for other processes.
TIMEOUT_S = 300
HERE = Path(__file__).parent
SESSION = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            # PySpark leaves sockets to the garbage collector, and says so of itself.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    java_home = Path(sys.prefix, "java-home")
    if java_home.exists():
        os.environ["JAVA_HOME"] = str(java_home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("emberq-tests")
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    folder = tmp_path_factory.mktemp("spark")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    session = builder.config("spark.local.dir", str(folder / "local")).getOrCreate()
    yield session
    session.stop()


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
