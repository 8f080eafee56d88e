"""Official clients cannot tell a broker of ours from an official one: they print the same."""

import asyncio
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from emberq.admin import Admin
from emberq.errors import MessageNotFound
from tests.interop.conftest import language_trouble, skip_or_fail, stop_everything
from tests.interop.harness.scenario_client import (
    LANGUAGES,
    ClientPair,
    ScenarioClient,
    start_pair,
)
from tests.interop.harness.sites import Site, Sites, start_emberq_site, start_sites
from tests.interop.harness.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

CASES = [
    (name, scenario) for name, language in LANGUAGES.items() for scenario in language.scenarios
]
BUSY_MESSAGES = 500
RECOVERY_TIMEOUT_S = 60.0
KILLS = 2
# One client in CI's part, all of them in the whole matrix.
ONE_OF_ALL = [
    pytest.param(name, marks=() if name == "java-5.5" else pytest.mark.slow) for name in LANGUAGES
]


@pytest.mark.parametrize(("language", "scenario"), CASES)
def test_a_client_sees_the_same_on_both_brokers(
    language: str, scenario: str, pairs: Callable[[str], ClientPair]
) -> None:
    ours, official = pairs(language).run(scenario)

    assert ours == official
    assert official
    assert not [line for line in official if line.endswith(" false")]  # waited for in vain


TRACED = [name for name, language in LANGUAGES.items() if "trace" in language.scenarios]


@pytest.mark.parametrize("language", TRACED)
def test_traces_of_official_clients_are_read(
    language: str, pairs: Callable[[str], ClientPair]
) -> None:
    """By the comparison above they were sent; who wrote them is another language."""
    pair = pairs(language)
    pair.run("trace")
    key = f"{pair.language.prefix}-trace-key"

    # More of the last two if the message came twice: members commit a moment after they consumed.
    life = ["Published", "ConsumeBegan", "ConsumeEnded"]
    for client in (pair.emberq, pair.official):
        events = partial(traced_events, client.site, key)
        eventually(events, lambda found: found[:3] == life, RECOVERY_TIMEOUT_S)


def traced_events(site: Site, key: str) -> list[str]:
    async def ask() -> list[str]:
        async with Admin(site.name_server.address) as admin:
            traces = await admin.trace(key)
            fullest = max(traces, key=lambda trace: len(trace.events))
            return [type(event).__name__ for event in fullest.events]

    try:
        return asyncio.run(ask())
    except MessageNotFound:
        return []


@pytest.fixture(scope="module")
def strict_sites(
    official_artifacts: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    """Brokers that make no topics on demand."""
    home = tmp_path_factory.mktemp("strict-")
    try:
        yield start_sites(home, autoCreateTopicEnable="false")
    finally:
        stop_everything(home)


@pytest.mark.parametrize("language", ONE_OF_ALL)
def test_unknown_topics_without_auto_creation(
    language: str, strict_sites: Sites, home: Path
) -> None:
    if trouble := language_trouble(language):
        skip_or_fail(trouble)
    pair = start_pair(LANGUAGES[language], strict_sites, home)

    ours, official = pair.run("unknown")
    pair.kill()

    assert ours == official
    assert not [line for line in official if "SEND_OK" in line]


@pytest.mark.parametrize("language", ["go"])
def test_a_message_without_a_body_is_a_message(
    language: str, pairs: Callable[[str], ClientPair]
) -> None:
    """Official brokers of 5.5.0 refuse it with a null pointer, so there is nothing to compare."""
    sent, received, message = pairs(language).emberq.run("empty")

    assert (sent, received) == ("send: SEND_OK", "received 1")
    assert message.startswith("nothing   flag 0 times 0 ")


@pytest.mark.parametrize("language", ONE_OF_ALL)
def test_clients_live_through_kills_of_the_broker(
    language: str, official_artifacts: None, home: Path
) -> None:
    """Nothing acknowledged is lost, and every queue keeps its order."""
    if trouble := language_trouble(language):
        skip_or_fail(trouble)
    site = start_emberq_site(home / "site")
    client = ScenarioClient(LANGUAGES[language], site, home / "client")
    client.wait_until_ready()
    client.run("load")

    received = 0
    for _ in range(KILLS):
        received = busy(client, received + BUSY_MESSAGES)
        site.broker.process.kill()
        site.broker.start_again()
        site.broker.wait_for_boot()
    busy(client, received + BUSY_MESSAGES)

    lost, disorder, queues = client.run("unload")
    assert (lost, disorder) == ("lost 0", "out of order 0")
    assert re.findall(r"\d", queues) == ["0", "1", "2", "3"]


def busy(client: ScenarioClient, count: int) -> int:
    """Wait until so many messages were received; how many there are."""

    def received() -> int:
        return int(client.run("loaded")[0].split()[1])

    return eventually(received, lambda found: found >= count, RECOVERY_TIMEOUT_S)
