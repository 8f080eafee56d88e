"""mqadmin cannot tell our name server from the official one."""

import re

import pytest

from tests.interop.harness.cluster import BROKER_NAME, Cluster
from tests.interop.harness.servers import CLUSTER, NameServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

# What 4.9.7 says at the end of a missing route; EmberQ answers as 5.5.0 does.
FAQ = re.compile(r"https?://rocketmq\.apache\.org/docs/\S+")
# First the columns that identify a broker, then load figures that change between two calls.
STABLE_COLUMNS = 5
# EmberQ scans as 4.9 does (see docs/compatibility.md).
OWN_DEFAULTS = {"scanNotActiveBrokerInterval": "10000"}


def ask(cluster: Cluster, server: NameServer, *arguments: str) -> list[str]:
    """Output lines of a command, without what must differ between two name servers."""
    lines = cluster.admin.run(*arguments, "-n", server.address)
    return [normalised(text, server) for text in lines if text.strip()]


def normalised(text: str, server: NameServer) -> str:
    text = text.replace(server.address, "{address}").replace(str(server.home), "{home}")
    return FAQ.sub("{faq}", text.replace(str(server.port), "{port}")).rstrip()


def ask_both(cluster: Cluster, *arguments: str) -> list[str]:
    """The answer of both name servers, which must be the same."""
    official = ask(cluster, cluster.official, *arguments)
    ours = ask(cluster, cluster.emberq, *arguments)
    assert ours == official
    return official


def configuration(cluster: Cluster, server: NameServer) -> dict[str, str]:
    lines = ask(cluster, server, "getNamesrvConfig")
    return dict(re.split(r"\s*=\s*", text, maxsplit=1) for text in lines if " = " in text)


def test_cluster_list_shows_the_same_brokers(cluster: Cluster) -> None:
    official = ask(cluster, cluster.official, "clusterList")
    ours = ask(cluster, cluster.emberq, "clusterList")

    rows = [text.split()[:STABLE_COLUMNS] for text in ours]
    assert rows == [text.split()[:STABLE_COLUMNS] for text in official]
    assert [CLUSTER, BROKER_NAME, "0", cluster.broker.address] == rows[1][:4]


def test_topic_route_shows_the_same_queues(cluster: Cluster) -> None:
    lines = ask_both(cluster, "topicRoute", "-t", "TBW102")

    assert cluster.broker.address in "".join(lines)


def test_the_route_of_an_unknown_topic_fails_with_the_same_words(cluster: Cluster) -> None:
    official = ask(cluster, cluster.official, "topicRoute", "-t", "no-such-topic")
    ours = ask(cluster, cluster.emberq, "topicRoute", "-t", "no-such-topic")

    reasons = [text for text in official if "CODE: 17" in text or "No topic route" in text]
    assert reasons
    assert [text for text in ours if "CODE: 17" in text or "No topic route" in text] == reasons


@pytest.mark.parametrize("options", [(), ("-c",)], ids=["names", "with-clusters"])
def test_topic_list_shows_the_same_topics(cluster: Cluster, options: tuple[str, ...]) -> None:
    official = ask(cluster, cluster.official, "topicList", *options)
    ours = ask(cluster, cluster.emberq, "topicList", *options)

    assert sorted(ours) == sorted(official)
    assert any("TBW102" in text for text in ours)


def test_kv_configuration_is_written_and_deleted_alike(cluster: Cluster) -> None:
    def stored() -> set[str]:
        files = [server.home / "kvConfig.json" for server in cluster.name_servers]
        return {file.read_text() for file in files}

    put = ask_both(cluster, "updateKvConfig", "-s", "some-space", "-k", "a-key", "-v", "ü/value")
    assert put == ["create or update kv config to namespace success."]
    assert stored() == {'{"configTable":{"some-space":{"a-key":"ü/value"}}}'}

    deleted = ask_both(cluster, "deleteKvConfig", "-s", "some-space", "-k", "a-key")
    assert deleted == ["delete kv config from namespace success."]
    assert stored() == {'{"configTable":{"some-space":{}}}'}


def test_write_permission_is_wiped_and_added_alike(cluster: Cluster) -> None:
    wiped = ask_both(cluster, "wipeWritePerm", "-b", BROKER_NAME)
    without_write = ask_both(cluster, "topicRoute", "-t", "TBW102")
    added = ask_both(cluster, "addWritePerm", "-b", BROKER_NAME)
    with_write = ask_both(cluster, "topicRoute", "-t", "TBW102")

    assert "OK" in wiped[0]
    assert "OK" in added[0]
    assert '"perm":5' in "".join(without_write)  # TBW102 also carries the inherit bit, 1
    assert '"perm":6' in "".join(with_write)


def test_name_server_configuration_reads_the_same(cluster: Cluster) -> None:
    official = configuration(cluster, cluster.official)
    ours = configuration(cluster, cluster.emberq)

    if cluster.line.is_v5:
        assert set(ours) == set(official)
    # 4.9 has a part of the keys of 5.x; every one that it has must be there.
    expected = {key: OWN_DEFAULTS.get(key, value) for key, value in official.items()}
    assert {key: ours.get(key) for key in official} == expected


def test_name_server_configuration_is_updated_alike(cluster: Cluster) -> None:
    said = ask_both(cluster, "updateNamesrvConfig", "-k", "productEnvName", "-v", "changed")
    values = {configuration(cluster, s)["productEnvName"] for s in cluster.name_servers}
    files = [(server.home / "namesrv.conf").read_text() for server in cluster.name_servers]

    assert "success" in said[0]
    assert values == {"changed"}
    assert all("productEnvName=changed\n" in text for text in files)


def test_a_refused_configuration_key_is_refused_with_the_same_code(cluster: Cluster) -> None:
    arguments = ("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "elsewhere")
    official = ask(cluster, cluster.official, *arguments)
    ours = ask(cluster, cluster.emberq, *arguments)

    def codes(lines: list[str]) -> set[str]:
        return set(re.findall(r"CODE: \d+", "\n".join(lines)))

    assert codes(ours) == codes(official) == {"CODE: 16"}


def test_a_topic_is_created_and_deleted_alike(cluster: Cluster) -> None:
    topic = "made-by-mqadmin"
    created = ask_both(cluster, "updateTopic", "-c", CLUSTER, "-t", topic, "-r", "3", "-w", "5")
    route = ask_both(cluster, "topicRoute", "-t", topic)
    # The second deletion finds no topic at the broker any more; nobody minds.
    deleted = [
        ask(cluster, s, "deleteTopic", "-c", CLUSTER, "-t", topic) for s in cluster.name_servers
    ]
    names = [ask(cluster, server, "topicList") for server in cluster.name_servers]

    assert "success" in created[0]
    assert '"readQueueNums":3' in "".join(route)
    assert '"writeQueueNums":5' in "".join(route)
    assert deleted[0] == deleted[1]
    assert "success" in deleted[0][0]
    assert all(topic not in text for text in names)


def test_order_configuration_is_kept_alike(cluster: Cluster) -> None:
    arguments = ("updateOrderConf", "-t", "ordered", "-m")
    put = ask_both(cluster, *arguments, "put", "-v", f"{BROKER_NAME}:4")
    shown = ask_both(cluster, *arguments, "get")
    deleted = ask_both(cluster, *arguments, "delete")

    assert f"{BROKER_NAME}:4" in "".join(put)
    assert f"{BROKER_NAME}:4" in "".join(shown)
    assert "success" in "".join(deleted)
