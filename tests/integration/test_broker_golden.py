"""EmberQ answers recorded requests as the official broker 5.5.0 answered them.

Each scenario of tests/golden/broker/5.5.0-AREA.json is played to a freshly started
`emberq broker`; `tests.golden.broker.replaying` says what may differ everywhere, and
`tests.golden.broker.differences` lists the steps where EmberQ differs on purpose.

One area while working on it:

    python -m tools.replay_broker pull
    pytest tests/integration/test_broker_golden.py -k pull
"""

from pathlib import Path

import pytest

from tests.golden.broker.differences import ON_PURPOSE
from tests.golden.broker.replaying import areas, replay, scenarios

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

CASES = [(area, name) for area in areas() for name in scenarios(area)]


@pytest.mark.parametrize(("area", "name"), CASES, ids=lambda text: str(text).replace(" ", "-"))
def test_the_recorded_answers_are_ours(area: str, name: str, tmp_path: Path) -> None:
    explained = ON_PURPOSE.get(area, {}).get(name, {})

    differences = replay(scenarios(area)[name], tmp_path, explained)

    unexpected = [f"{step}: {text}" for step, text in differences.items() if step not in explained]
    assert not unexpected, "\n".join(unexpected)
    assert set(differences) == set(explained), "no difference any more: remove it from the list"
