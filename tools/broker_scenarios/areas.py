"""The areas that are recorded, each into a file of its own."""

from tools.broker_scenarios import (
    administration,
    batches,
    filtering,
    membership,
    offsets,
    pulling,
    querying,
    replying,
    retrying,
    sending,
    statistics,
    timing,
    transactions,
    waiting,
)
from tools.broker_scenarios.steps import Scenario

AREAS: dict[str, tuple[Scenario, ...]] = {
    "send": sending.SCENARIOS,
    "batch": batches.SCENARIOS,
    "retry": retrying.SCENARIOS,
    "pull": pulling.SCENARIOS,
    "wait": waiting.SCENARIOS,
    "filter": filtering.SCENARIOS,
    "offset": offsets.SCENARIOS,
    "query": querying.SCENARIOS,
    "member": membership.SCENARIOS,
    "admin": administration.SCENARIOS,
    "statistics": statistics.SCENARIOS,
    "timer": timing.SCENARIOS,
    "transaction": transactions.SCENARIOS,
    "reply": replying.SCENARIOS,
}
