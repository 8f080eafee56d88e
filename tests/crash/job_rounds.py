"""Kills of driver, workers and broker under jobs on Spark: python -m tests.crash.job_rounds."""

import tempfile
from itertools import cycle, islice, product
from pathlib import Path
from random import Random

import click

from tests.crash.rounds import arguments_of, which
from tests.support.job_kills import VICTIMS, JobKills
from tests.support.table_kills import (
    ArchiveKills,
    DeltaArchiveKills,
    IcebergArchiveKills,
    StatsKills,
)
from tests.support.transform_kills import (
    IdempotentTransformKills,
    TransactionalTransformKills,
    TransformKills,
)

KILLS_PER_FOLDER = 10
JOBS: dict[str, type[JobKills]] = {
    "archive": ArchiveKills,
    "archive-delta": DeltaArchiveKills,
    "archive-iceberg": IcebergArchiveKills,
    "transform-at-least-once": TransformKills,
    "transform-idempotent": IdempotentTransformKills,
    "transform-transactional": TransactionalTransformKills,
    "stats": StatsKills,
}


def kill_rounds(rounds: int, job: str, random: Random) -> None:
    """All victims at all points by turns, in an order of chance."""
    each = [*product(VICTIMS, JOBS[job].points)]
    random.shuffle(each)
    turns = islice(cycle(each), rounds)
    done = 0
    while done < rounds:
        with tempfile.TemporaryDirectory() as folder, JOBS[job](Path(folder), random) as kills:
            for victim, point in islice(turns, KILLS_PER_FOLDER):
                kills.run(victim, point)
                done += 1
            kills.settle()
            click.echo(
                f"  {job}: {done} of {rounds} killed ({which(kills.kills)}): {kills.check()};"
                f" the job was started {kills.starts} times"
            )


def main() -> None:
    given = arguments_of(
        "tests.crash.job_rounds", __doc__, what="kills under each job", only=("job", JOBS)
    )
    for job in [given.job] if given.job else JOBS:
        kill_rounds(given.rounds, job, Random(given.seed))
    click.echo("all as it should be")


if __name__ == "__main__":
    main()
