"""Jobs on Spark whose driver, worker or broker is killed; all rounds: tests/crash/job_rounds.py."""

from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark")

from tests.support.job_kills import VICTIMS, JobKills
from tests.support.table_kills import ArchiveKills, StatsKills
from tests.support.transform_kills import TransactionalTransformKills

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("job", "point"),
    [
        (ArchiveKills, "in the table"),
        (StatsKills, "planned"),
        (TransactionalTransformKills, "deciding"),
    ],
)
def test_every_message_counts_once_whoever_is_killed(
    tmp_path: Path, job: type[JobKills], point: str
) -> None:
    with job(tmp_path, Random(7)) as kills:
        for victim in VICTIMS:
            kills.run(victim, point)
        kills.settle()
        kills.check()

    assert kills.starts >= 2
