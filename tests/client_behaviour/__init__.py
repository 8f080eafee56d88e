"""How the client behaves, whatever server it talks to: one list of scenarios.

`tests/integration/client/test_behaviour.py` plays them on EmberQ, `tests/interop/
test_client_behaviour.py` on official brokers of both lines.
"""

from tests.client_behaviour import (
    blocking,
    conversing,
    pulling,
    pushing,
    sending,
    sharing,
)
from tests.client_behaviour.scenario import SCENARIOS

# Transactions last: a 5.5.0 broker that has seen one keeps a core busy until it ends.
SCENARIOS.sort(key=lambda scenario: "transactions" in scenario.needs)

__all__ = ["SCENARIOS", "blocking", "conversing", "pulling", "pushing", "sending", "sharing"]
