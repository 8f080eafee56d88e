"""`emberq standalone`: one command, several programs."""

import os
import signal
from pathlib import Path

import pytest

from emberq.model.route import TopicRoute
from emberq.protocol.bodies.codec import decode_body
from emberq.testing.local_cluster import LocalCluster, run_cluster
from emberq.testing.local_nameserver import RawClient, connected
from tests.integration.nameserver.running import eventually

pytestmark = pytest.mark.integration


def connected_to(address: str):  # type: ignore[no-untyped-def]  # an async context manager
    host, _, port = address.rpartition(":")
    return connected(host, int(port))


async def brokers_of(client: RawClient, topic: str) -> dict[str, str]:
    answer = await client.route(topic)
    if answer.code != 0:
        return {}
    route = decode_body(TopicRoute, answer.body)
    return {broker.broker_name: broker.addresses[0] for broker in route.brokers}


def children_of(cluster: LocalCluster) -> list[int]:
    pid = cluster.program.process.pid
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_one_broker_is_found_through_its_name_server(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as cluster:
        async with connected_to(cluster.name_server) as client:
            found = await brokers_of(client, "TBW102")
        exit_code = cluster.stop()

    assert found == cluster.brokers
    assert list(found) == ["broker-a"]
    assert exit_code == 0
    assert (tmp_path / "broker-a/store/config/topics.json").exists()
    assert not (tmp_path / "broker-a/store/abort").exists()


async def test_several_brokers_share_topics_and_a_killed_one_comes_back(tmp_path: Path) -> None:
    with run_cluster(tmp_path, "--brokers", "2") as cluster:
        async with connected_to(cluster.name_server) as client:
            both = await brokers_of(client, "TBW102")
            first, second = children_of(cluster)
            os.kill(first, signal.SIGKILL)

            async def is_back() -> bool:
                now = await brokers_of(client, "TBW102")
                return set(now) == set(both) and now != both

            await eventually(is_back)
        is_second_untouched = is_running(second)
        exit_code = cluster.stop()

    assert both == cluster.brokers
    assert sorted(both) == ["broker-a", "broker-b"]
    assert is_second_untouched
    assert exit_code == 0
    for name in both:
        assert not (tmp_path / name / "store/abort").exists()


async def test_no_broker_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    with run_cluster(tmp_path, "--brokers", "2") as cluster:
        children = children_of(cluster)
        assert len(children) == 2
        cluster.kill()

        async def are_gone() -> bool:
            return not any(map(is_running, children))

        await eventually(are_gone)

    for name in cluster.brokers:
        assert not (tmp_path / name / "store/abort").exists()
