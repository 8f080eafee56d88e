"""The client's behaviours on official name servers and brokers of both lines."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.client_behaviour import SCENARIOS
from tests.client_behaviour.lacking import OFFICIAL
from tests.client_behaviour.scenario import Scenario
from tests.client_behaviour.server import Server
from tests.interop.harness.artifacts import LINES, Line

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

# For what is not there.
SHORT_PATIENCE_S = 3.0


def _case(line: Line, scenario: Scenario) -> pytest.param:  # type: ignore[valid-type] # pytest hides its class
    lacks = OFFICIAL[line.name]
    marks = [
        pytest.mark.xfail(reason=lacks[need]) for need in sorted(scenario.needs & lacks.keys())
    ]
    return pytest.param(line, scenario, marks=marks, id=f"{line.name}-{scenario.name}")


@pytest.mark.parametrize(
    ("line_played_on", "scenario"), [_case(line, each) for line in LINES for each in SCENARIOS]
)
def test_on_an_official_broker(
    behaving: Callable[[Line | None], Server], line_played_on: Line, scenario: Scenario
) -> None:
    server = behaving(line_played_on)
    if scenario.needs & OFFICIAL[line_played_on.name].keys():
        server = replace(server, patience_s=SHORT_PATIENCE_S)
    asyncio.run(scenario.play(server))
