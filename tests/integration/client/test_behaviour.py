"""The client's behaviours on EmberQ: a name server and a broker in processes of their own."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from emberq.testing.local_broker import run_broker
from emberq.testing.local_nameserver import run_name_server
from tests.client_behaviour import SCENARIOS
from tests.client_behaviour.lacking import EMBERQ
from tests.client_behaviour.scenario import Scenario
from tests.client_behaviour.server import BROKER_KEYS, Server

pytestmark = pytest.mark.integration

PATIENCE_S = 20.0
# For what is not there.
SHORT_PATIENCE_S = 2.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("emberq")
    config = {**BROKER_KEYS, "brokerIP1": "127.0.0.1"}
    with (
        run_name_server(home / "namesrv") as name_server,
        run_broker(home / "broker", name_servers=name_server.address, config=config),
    ):
        yield Server(name="EmberQ", name_server=name_server.address, patience_s=PATIENCE_S)


def _case(scenario: Scenario) -> pytest.param:  # type: ignore[valid-type] # pytest hides its class
    missing = sorted(scenario.needs & EMBERQ.keys())
    marks = [pytest.mark.xfail(reason=EMBERQ[feature]) for feature in missing]
    return pytest.param(scenario, id=scenario.name, marks=marks)


@pytest.mark.parametrize("scenario", [_case(scenario) for scenario in SCENARIOS])
async def test_on_emberq(server: Server, scenario: Scenario) -> None:
    if scenario.needs & EMBERQ.keys():
        server = replace(server, patience_s=SHORT_PATIENCE_S)
    await scenario.play(server)
