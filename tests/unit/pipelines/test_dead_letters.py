"""Mistakes in what is asked of dead letters are told before Spark is started."""

import pytest

from emberq.errors import ConfigError
from emberq.pipelines.dead_letters import DeadLetters


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (DeadLetters(groups="billing", redrive=True), "redrive needs ledger"),
        (DeadLetters(groups=" , "), "groups names no group"),
    ],
)
def test_a_plan_refuses_what_a_run_refuses(job: DeadLetters, message: str) -> None:
    for step in (job.plan, job.run):
        with pytest.raises(ConfigError, match=message):
            step()
