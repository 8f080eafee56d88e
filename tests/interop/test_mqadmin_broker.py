"""mqadmin of both lines cannot tell our broker from the official one."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.golden.nameserver.conversation import RawConnection, Request
from tests.interop.harness.admin_shell import AdminShell
from tests.interop.harness.artifacts import Line
from tests.interop.harness.servers import CLUSTER
from tests.interop.harness.sites import BROKER_NAME, Site, Sites
from tests.interop.harness.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

SEND, COMMIT = 310, 15
KEY, UNIQUE_KEY = "key-1", "7F000001000078E0000000000000ABCD"

# What differs between two runs of one broker.
UNSTABLE = (
    (re.compile(r"\b1[67]\d{11}\b"), "MS"),
    (re.compile(r"\b20\d\d-\d\d-\d\d[ #]\d\d:\d\d:\d\d(?:[:,.]\d{3})?"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "PEER"),
    (re.compile(r"Topic Put TPS: .*"), "Topic Put TPS"),
    # Rates of statsAll: how long ago a broker looked for the first time, it knows alone.
    (re.compile(r"(?<= )\d+\.\d\d(?= +\d+\.\d\d +\d+ +\d+$)"), "IN"),
    (re.compile(r"(?<=IN) +\d+\.\d\d(?= +\d+ +\d+$)"), " OUT"),
)
# Brokers look at their counters every ten seconds, each at its own time.
COUNTED_WITHIN_S = 60.0
PROPERTIES = re.compile(r"\{(\w+=[^{}]*)\}")
STACK_FRAME = re.compile(r"^\s+(at |\.\.\. \d+ more)")
# Figures of this minute and of this disk, and what EmberQ has not: thread pools.
FIGURES = re.compile(
    r"Tps|Time|Total|Offset|Ratio|Capacity|Size|Latency|runtime|remain|Behind|commitLogDirCapacity"
)
# Keys of 4.9 that 5.5 has no more.
KEYS_OF_4_9 = {"brokerVersion", "getTransferedTps"}
OF_EACH_SITE = {"brokerConfigPath", "haListenPort", "listenPort", "namesrvAddr", "rocketmqHome"}


@dataclass(frozen=True)
class Tools:
    """The tools of one line, a JVM per site: some commands run but once in a JVM."""

    line: Line
    sites: Sites
    shells: tuple[AdminShell, AdminShell]
    output: Path

    def name(self, text: str) -> str:
        """A topic or group of this line: both lines work on the same sites."""
        return f"{text}-{self.line.name.replace('.', '-')}"

    def run(self, *arguments: str) -> tuple[list[str], list[str]]:
        """The output lines of a command for our site and for the official one."""
        with ThreadPoolExecutor(2) as pool:
            ours, official = pool.map(
                lambda shell, site: self._run_at(shell, site, arguments),
                self.shells,
                self.sites.both,
            )
        return ours, official

    def ask(self, *arguments: str) -> list[str]:
        """The output, which must be the same for both."""
        ours, official = self.run(*arguments)
        assert ours == official, f"{' '.join(arguments)}"
        return ours

    def ask_unordered(self, *arguments: str) -> list[str]:
        ours, official = self.run(*arguments)
        assert sorted(ours) == sorted(official), f"{' '.join(arguments)}"
        return ours

    def _run_at(self, shell: AdminShell, site: Site, arguments: tuple[str, ...]) -> list[str]:
        own = {"BROKER": site.broker.address, "OUTPUT": str(self.output / site.broker.home.name)}
        given = [own.get(argument, argument) for argument in arguments]
        lines = shell.run(*given, "-n", site.name_server.address)
        told = [text for text in lines if text.strip() and not STACK_FRAME.match(text)]
        return [normal(site, text, own["OUTPUT"]) for text in told]


def normal(site: Site, text: str, output: str) -> str:
    text = text.replace(site.broker.address, "BROKER").replace(site.name_server.address, "NAMESRV")
    text = text.replace(str(site.broker.home), "HOME").replace(output, "OUTPUT")
    text = text.replace(f"7F0000010000{site.broker.port:04X}", "BROKER-ID")
    # Java prints properties in the order of its hash table, which depends on how they came.
    text = PROPERTIES.sub(lambda found: f"{{{', '.join(sorted(found[1].split(', ')))}}}", text)
    for pattern, name in UNSTABLE:
        text = pattern.sub(name, text)
    return text


@pytest.fixture(scope="module")
def tools(
    line: Line, tool_sites: Sites, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tools]:
    home = tmp_path_factory.mktemp(f"tools-{line.name}-")
    shells = AdminShell(line, home / "ours"), AdminShell(line, home / "official")
    for shell in shells:
        shell.wait_for_boot()
    try:
        yield Tools(line, tool_sites, shells, home)
    finally:
        for shell in shells:
            shell.process.kill()


@pytest.fixture(scope="module")
def topic(tools: Tools) -> str:
    """A topic with one message, which a group has consumed."""
    topic, group = tools.name("stocked"), tools.name("readers")
    tools.ask("updateTopic", "-b", "BROKER", "-t", topic, "-r", "3", "-w", "3")
    tools.ask("updateSubGroup", "-b", "BROKER", "-g", group)
    tools.ask("updateTopic", "-b", "BROKER", "-t", f"%RETRY%{group}", "-r", "1", "-w", "1")
    send = {
        **{"a": "producers", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0"},
        **{"g": "1700000000000", "h": "0", "j": "0", "k": "false", "l": "0"},
        "i": f"KEYS\x01{KEY}\x02UNIQ_KEY\x01{UNIQUE_KEY}\x02TAGS\x01A\x02",
    }
    commit = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": "1"}
    for site in tools.sites.both:
        connection = RawConnection.open(site.broker.port)
        for request in (Request(SEND, send, body=b"hello"), Request(COMMIT, commit)):
            answer = connection.call(request)
            assert answer is not None
            assert answer.header["code"] == 0, answer.header
        connection.close()
    return topic


def values(lines: list[str], separator: str) -> dict[str, str]:
    pairs = (text.partition(separator) for text in lines)
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def test_topics_are_created_changed_and_deleted_alike(tools: Tools) -> None:
    topic = tools.name("made")

    created = tools.ask("updateTopic", "-b", "BROKER", "-t", topic, "-r", "3", "-w", "5")
    in_cluster = tools.ask("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "2", "-w", "2")
    tools.ask("updateTopicPerm", "-c", CLUSTER, "-t", topic, "-p", "4")
    route = tools.ask("topicRoute", "-t", topic)
    clusters = tools.ask("topicClusterList", "-t", topic)
    deleted = tools.ask("deleteTopic", "-c", CLUSTER, "-t", topic)
    gone = tools.ask("topicRoute", "-t", topic)

    assert "success" in created[0]
    assert "success" in in_cluster[0]
    assert '"perm":4' in "".join(route)
    assert clusters == [CLUSTER]
    assert "success" in deleted[0]
    assert "CODE: 17" in "".join(gone)


@pytest.mark.parametrize("name", ["a^b", "TBW102", CLUSTER, "x" * 128])
def test_names_of_topics_are_refused_alike(tools: Tools, name: str) -> None:
    said = tools.ask("updateTopic", "-b", "BROKER", "-t", name)

    assert "CODE: 29" in "".join(said) or "illegal" in "".join(said)


def test_attributes_are_taken_and_refused_alike(tools: Tools) -> None:
    if not tools.line.is_v5:
        pytest.skip("the 4.9 line has none")
    update = ("updateTopic", "-b", "BROKER", "-t", tools.name("fifo"), "-a")

    assert "success" in tools.ask(*update, "+message.type=FIFO")[0]
    assert "unsupported key" in "".join(tools.ask(*update, "+nokey=1"))


def test_topics_are_listed_alike(tools: Tools, topic: str) -> None:
    assert topic in tools.ask_unordered("topicList")


def test_queues_of_a_topic_are_described_alike(tools: Tools, topic: str) -> None:
    status = tools.ask("topicStatus", "-t", topic)
    entries = tools.ask("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "1", "-b", "BROKER")
    allocated = tools.ask("allocateMQ", "-t", topic, "-i", "1.1.1.1,2.2.2.2")

    assert len([text for text in status if text.startswith(BROKER_NAME)]) == 3
    assert "max: 1, min: 0" in entries
    assert topic in "".join(allocated)


def test_messages_are_found_alike(tools: Tools, topic: str) -> None:
    by_key = tools.ask("queryMsgByKey", "-t", topic, "-k", KEY)
    by_id = tools.ask("queryMsgByUniqueKey", "-t", topic, "-i", UNIQUE_KEY)
    printed = tools.ask("printMsg", "-t", topic)

    assert UNIQUE_KEY in "".join(by_key)
    assert topic in "".join(by_id)
    assert UNIQUE_KEY in "".join(printed)


def test_groups_are_created_shown_and_deleted_alike(tools: Tools) -> None:
    group = tools.name("made")

    created = tools.ask("updateSubGroup", "-b", "BROKER", "-g", group, "-r", "3")
    in_cluster = tools.ask("updateSubGroup", "-c", CLUSTER, "-g", group, "-s", "false")
    shown = tools.ask("getConsumerConfig", "-g", group)
    deleted = tools.ask("deleteSubGroup", "-b", "BROKER", "-g", group, "-r", "true")

    assert "success" in created[0]
    assert "success" in in_cluster[0]
    assert group in "".join(shown)
    assert "success" in deleted[0]


def test_progress_of_groups_is_shown_alike(tools: Tools, topic: str) -> None:
    group = tools.name("readers")

    of_group = tools.ask_unordered("consumerProgress", "-g", group)
    of_broker = tools.ask_unordered("brokerConsumeStats", "-b", "BROKER")
    of_topic, _ = eventually(
        lambda: tools.run("statsAll", "-t", topic),
        lambda seen: sorted(seen[0]) == sorted(seen[1]),
        COUNTED_WITHIN_S,
    )

    assert topic in "".join(of_group)
    assert group in "".join(of_broker)
    assert topic in "".join(of_topic)


def test_offsets_are_moved_alike(tools: Tools, topic: str) -> None:
    group = tools.name("readers")

    reset = tools.ask("resetOffsetByTime", "-g", group, "-t", topic, "-s", "1600000000000")
    skipped = tools.ask("skipAccumulatedMessage", "-g", group, "-t", topic, "-f", "true")
    cloned = tools.ask("cloneGroupOffset", "-s", group, "-d", f"{group}-2", "-t", topic)

    assert BROKER_NAME in "".join(reset)
    assert BROKER_NAME in "".join(skipped)
    assert cloned is not None


def test_the_state_of_a_broker_has_every_key_that_tools_know(tools: Tools, topic: str) -> None:
    lists = tools.run("brokerStatus", "-b", "BROKER")
    ours, official = (values(lines, " : ") for lines in lists)

    assert ours.keys() == official.keys() | KEYS_OF_4_9
    stable = {key: value for key, value in official.items() if not FIGURES.search(key)}
    assert {key: ours[key] for key in stable} == stable
    assert ours["commitLogMinOffset"] == official["commitLogMinOffset"]
    assert "brokerVersionDesc" in stable


def test_brokers_are_listed_for_both_lines(tools: Tools) -> None:
    ours, official = tools.run("clusterList")

    row = next(text for text in ours if BROKER_NAME in text)
    assert "V5_5_0" in row
    if tools.line.is_v5:  # tools of 4.9 do not find all keys in an official broker of 5.5
        assert [text.split()[:5] for text in ours] == [text.split()[:5] for text in official]


def test_the_configuration_reads_and_changes_alike(tools: Tools) -> None:
    lists = tools.run("getBrokerConfig", "-b", "BROKER")
    ours, official = (values(lines, " =") for lines in lists)
    common = ours.keys() & official.keys() - OF_EACH_SITE
    assert {key: ours[key] for key in common} == {key: official[key] for key in common}
    assert len(common) > 50

    changed = tools.ask("updateBrokerConfig", "-b", "BROKER", "-k", "traceOn", "-v", "false")
    back = tools.ask("updateBrokerConfig", "-c", CLUSTER, "-k", "traceOn", "-v", "true")
    refused = tools.ask("updateBrokerConfig", "-b", "BROKER", "-k", "configBlackList", "-v", "x")
    assert "success" in changed[0]
    assert "success" in back[0]
    assert "CODE: 16" in "".join(refused)


def test_cleaning_is_done_alike(tools: Tools) -> None:
    for command in ("cleanUnusedTopic", "cleanExpiredCQ", "deleteExpiredCommitLog"):
        assert "success" in "".join(tools.ask(command, "-b", "BROKER"))


def test_tables_and_figures_are_exported_alike(tools: Tools, topic: str) -> None:
    assert "success" in tools.ask("exportMetadata", "-c", CLUSTER, "-f", "OUTPUT")[0]
    tools.ask("exportConfigs", "-c", CLUSTER, "-f", "OUTPUT")  # fails in 4.9 for both
    ours, official = tools.run("exportMetrics", "-c", CLUSTER, "-f", "OUTPUT")
    assert "success" in "".join(ours)
    if tools.line.is_v5:
        assert ours == official

    folders = [tools.output / site.broker.home.name for site in tools.sites.both]
    tables = [json.loads((folder / "metadata.json").read_text()) for folder in folders]
    topics = [table["topicConfigTable"][topic] for table in tables]
    groups = [table["subscriptionGroupTable"][tools.name("readers")] for table in tables]
    assert topics[0] == topics[1]
    assert groups[0] == groups[1]


def test_replication_is_described_alike(tools: Tools) -> None:
    if not tools.line.is_v5:
        pytest.skip("the 4.9 line has no such commands")
    lists = tools.run("haStatus", "-b", "BROKER")
    ours, official = ([text for text in lines if "MaxOffset" not in text] for lines in lists)

    assert ours == official
    assert "CODE: 1 " in "".join(tools.ask("getBrokerEpoch", "-b", BROKER_NAME))
