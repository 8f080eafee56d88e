"""Official brokers leave the routes when they die and return when they live."""

from collections.abc import Iterator

import pytest

from tests.interop.harness.cluster import Cluster, wait_until_gone, wait_until_registered
from tests.interop.harness.servers import Broker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture
def mortal(cluster: Cluster) -> Iterator[Broker]:
    """A second broker, so that the shared one survives."""
    broker = cluster.start_broker("mortal")
    try:
        broker.wait_for_boot()
        yield broker
    finally:
        broker.process.kill()


def test_a_killed_broker_leaves_the_routes_and_returns_when_started_again(
    cluster: Cluster, mortal: Broker
) -> None:
    for name_server in cluster.name_servers:
        wait_until_registered(name_server, mortal)

    mortal.process.kill()
    for name_server in cluster.name_servers:
        wait_until_gone(name_server, mortal)

    mortal.start_again()
    mortal.wait_for_boot()
    for name_server in cluster.name_servers:
        wait_until_registered(name_server, mortal)

    # One that stops properly unregisters itself instead of being missed.
    mortal.process.ask_to_end()
    for name_server in cluster.name_servers:
        wait_until_gone(name_server, mortal)
