"""The same site twice: a name server of ours with a broker of ours, or with an official one."""

from dataclasses import dataclass
from pathlib import Path

from tests.golden.nameserver.conversation import RawConnection, Request
from tests.interop.harness.artifacts import LINES
from tests.interop.harness.cluster import wait_until_registered
from tests.interop.harness.servers import (
    Broker,
    NameServer,
    start_emberq_broker,
    start_emberq_name_server,
    start_official_broker,
    wait_for_boot,
)
from tests.interop.harness.waiting import eventually

NEWEST = LINES[-1]
BROKER_NAME = "brk-a"
CREATE_TOPIC, GET_ROUTE, RESET_OFFSET = 17, 105, 222
# Brokers repeat a registration that failed after 30 s.
ROUTE_TIMEOUT_S = 90.0

# Retries take the third level and later ones: a second each instead of minutes.
SETTINGS = {
    **{"messageDelayLevel": " ".join(["1s"] * 18), "recallMessageEnable": "true"},
    **{"transactionTimeOut": "1000", "transactionCheckInterval": "2000"},
    "traceTopicEnable": "true",
}
# Go clients leave locks behind; a system property officially, a key of broker.conf for ours.
LOCK_TIME_KEY, LOCK_TIME_MS = "rocketmq.broker.rebalance.lockMaxLiveTime", "10000"
OWN_SETTINGS = SETTINGS | {LOCK_TIME_KEY: LOCK_TIME_MS}


@dataclass(frozen=True)
class Site:
    """A name server and the only broker that it knows."""

    name_server: NameServer
    broker: Broker

    def create_topic(self, topic: str, queues: int) -> None:
        fields = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "order": "false"}
        fields |= {"readQueueNums": str(queues), "writeQueueNums": str(queues)}
        fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"}
        answer = call(self.broker.port, Request(CREATE_TOPIC, fields))
        assert answer == 0, f"topic {topic}: code {answer}"
        route = Request(GET_ROUTE, {"topic": topic})
        eventually(
            lambda: call(self.name_server.port, route), lambda code: code == 0, ROUTE_TIMEOUT_S
        )

    def reset_offsets(self, topic: str, group: str) -> None:
        """Send a group back to the start of a topic, as mqadmin does."""
        fields = {"topic": topic, "group": group, "timestamp": "0", "isForce": "true"}
        answer = call(self.broker.port, Request(RESET_OFFSET, fields))
        assert answer == 0, f"reset of {group}: code {answer}"


@dataclass(frozen=True)
class Sites:
    """What must not be told apart."""

    emberq: Site
    official: Site

    @property
    def both(self) -> tuple[Site, Site]:
        return self.emberq, self.official


def call(port: int, request: Request) -> int:
    """The code of the answer."""
    connection = RawConnection.open(port)
    try:
        answer = connection.call(request)
    finally:
        connection.close()
    assert answer is not None, f"no answer to {request.code}"
    code: int = answer.header["code"]
    return code


def start_emberq_site(home: Path) -> Site:
    """One of ours alone, for tests that kill it."""
    name_server = start_emberq_name_server(home / "namesrv")
    wait_for_boot(name_server)
    broker = start_emberq_broker(BROKER_NAME, home / "emberq", [name_server], **OWN_SETTINGS)
    broker.wait_for_boot()
    wait_until_registered(name_server, broker)
    return Site(name_server, broker)


def start_sites(home: Path, **config: str) -> Sites:
    name_servers = [start_emberq_name_server(home / f"namesrv-{part}") for part in "eo"]
    for name_server in name_servers:
        wait_for_boot(name_server)
    ours, official = name_servers
    sites = Sites(
        Site(
            ours,
            start_emberq_broker(BROKER_NAME, home / "emberq", [ours], **(OWN_SETTINGS | config)),
        ),
        Site(
            official,
            start_official_broker(
                NEWEST,
                BROKER_NAME,
                home / "official",
                [official],
                port=None,
                java_options=(f"-D{LOCK_TIME_KEY}={LOCK_TIME_MS}",),
                **(SETTINGS | config),
            ),
        ),
    )
    for site in sites.both:
        site.broker.wait_for_boot()
        wait_until_registered(site.name_server, site.broker)
    return sites
