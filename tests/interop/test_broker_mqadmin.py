"""mqadmin of both lines cannot tell a broker of ours from an official one."""

import re
from collections.abc import Iterator

import pytest

from tests.golden.nameserver.conversation import Request
from tests.interop.harness.admin_shell import AdminShell
from tests.interop.harness.artifacts import Line
from tests.interop.harness.servers import CLUSTER
from tests.interop.harness.sites import BROKER_NAME, Site, Sites, call
from tests.interop.harness.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

SEND, MAX_OFFSET = 310, 30
QUEUES, MESSAGES = 4, 3
BORN_MS = 1_700_000_000_123
FOUND_TIMEOUT_S = 20.0

# What must differ between two brokers, or from one moment to the next.
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"), "{date}"),
    (re.compile(r"(?<![0-9A-F])[0-9A-F]{32}(?![0-9A-F])"), "{id}"),
    (re.compile(r"127\.0\.0\.1:\d+"), "{host}"),
    (re.compile(r"(?<!\d)17\d{11}(?!\d)"), "{ms}"),
    (re.compile(r"Total Put.*|(?<=\s)\d+\.\d+(?=\s|$)"), "{rate}"),
    (re.compile(r"([oO]ffset:\s+|physicOffset=|commitLogOffset=)\d+"), r"\1{offset}"),
    (re.compile(r"\s+$"), ""),
)
# Printed in the order of a hash table whose entries came in another order.
PROPERTIES = re.compile(r"(?<=roperties[:=] {10}\{)[^}]*|(?<=properties=\{)[^}]*")


class Tools:
    """mqadmin of one line, asked about both sites."""

    def __init__(self, admin: AdminShell, sites: Sites) -> None:
        self._admin = admin
        self._sites = sites

    def agree(self, *command: str, on_broker: bool = False) -> list[str]:
        """The output lines, which must be the same; their order is that of hash tables."""
        ours, official = (self._ask(site, *command, on_broker=on_broker) for site in self._both)
        assert ours == official
        return ours

    @property
    def _both(self) -> tuple[Site, Site]:
        return self._sites.both

    def _ask(self, site: Site, *command: str, on_broker: bool) -> list[str]:
        where = ("-b", site.broker.address) if on_broker else ()
        lines = self._admin.run(*command, *where, "-n", site.name_server.address)
        return sorted(normalised(line) for line in lines if line.strip())


def normalised(line: str) -> str:
    for pattern, name in VARYING:
        line = pattern.sub(name, line)
    return PROPERTIES.sub(lambda found: ", ".join(sorted(found[0].split(", "))), line)


@pytest.fixture(scope="module")
def tools(line: Line, sites: Sites, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    admin = AdminShell(line, tmp_path_factory.mktemp(f"tools-{line.name}-"))
    try:
        admin.wait_for_boot()
        yield Tools(admin, sites)
    finally:
        admin.process.kill()


def fill(site: Site, topic: str) -> None:
    """The same messages on every site, and found by key when this returns."""
    for number in range(MESSAGES):
        properties = f"KEYS\x01key{number}\x02TAGS\x01TagA\x02UNIQ_KEY\x01{number:032X}\x02"
        fields = {"a": "tools", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0"}
        fields |= {"g": str(BORN_MS), "h": "0", "i": properties, "j": "0", "k": "false"}
        assert call(site.broker.port, Request(SEND, fields, body=b"body %d" % number)) == 0
    key = {"topic": topic, "key": f"key{MESSAGES - 1}", "maxNum": "1", "beginTimestamp": "0"}
    asked = Request(12, key | {"endTimestamp": str(1 << 50)})
    eventually(lambda: call(site.broker.port, asked), lambda code: code == 0, FOUND_TIMEOUT_S)


def test_topics_groups_and_messages_read_the_same(tools: Tools, sites: Sites, line: Line) -> None:
    topic = f"Tools{line.name.replace('.', '')}"
    group = f"{topic}-group"
    in_cluster = ("-c", CLUSTER)

    created = tools.agree("updateTopic", *in_cluster, "-t", topic, "-r", "4", "-w", "4")
    assert any("success" in text for text in created)
    tools.agree("updateSubGroup", *in_cluster, "-g", group)
    tools.agree("getConsumerConfig", "-g", group)
    tools.agree("topicClusterList", "-t", topic)
    empty = tools.agree("topicStatus", "-t", topic)
    for site in sites.both:
        fill(site, topic)
        site.create_topic(f"%RETRY%{group}", 1)  # how tools find the brokers of a group

    assert tools.agree("topicStatus", "-t", topic) != empty
    tools.agree("queryMsgByKey", "-t", topic, "-k", "key1")
    by_offset = tools.agree(
        "queryMsgByOffset", "-t", topic, "-b", BROKER_NAME, "-i", "0", "-o", "1"
    )
    assert any("key1" in text for text in by_offset)
    printed = tools.agree("printMsg", "-t", topic)
    assert sum("key" in text for text in printed) == MESSAGES
    entries = tools.agree("queryCq", "-t", topic, "-q", "0", "-i", "0", on_broker=True)
    assert sum("physicSize" in text for text in entries) == MESSAGES

    tools.agree("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    progress = tools.agree("consumerProgress", "-g", group)
    assert any(text.startswith(topic) for text in progress)
    tools.agree("consumerConnection", "-g", group)
    tools.agree("producerConnection", "-g", "nobody", "-t", topic)

    tools.agree("updateTopicPerm", "-t", topic, "-p", "4", *in_cluster)
    assert any('"perm":4' in text for text in tools.agree("topicRoute", "-t", topic))
    tools.agree("deleteSubGroup", "-g", group, *in_cluster)
    tools.agree("deleteTopic", "-t", topic, *in_cluster)
    assert any("CODE: 17" in text for text in tools.agree("topicRoute", "-t", topic))


@pytest.mark.parametrize(
    "command", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"]
)
def test_cleaning_is_answered_alike(tools: Tools, command: str) -> None:
    assert tools.agree(command, on_broker=True) == ["success"]


def test_the_configuration_is_updated_alike(tools: Tools) -> None:
    done = tools.agree("updateBrokerConfig", "-k", "traceOn", "-v", "true", on_broker=True)
    refused = tools.agree("updateBrokerConfig", "-k", "rocketmqHome", "-v", "x", on_broker=True)

    assert "success" in done[0]
    assert any("CODE: 16" in text for text in refused)
