"""Kills in the middle of batches of the Spark sink: python -m tests.crash.sink_rounds."""

import tempfile
from pathlib import Path
from random import Random

import click

from tests.crash.rounds import arguments_of, which
from tests.support.sink_kills import POINTS, SinkKills

KILLS_PER_DIRECTORY = 10
# Brokers that ask about half messages all the time, and give them up after a few seconds.
HASTY = {"transactionTimeOut": "300", "transactionCheckInterval": "300"}


def kill_rounds(rounds: int, delivery: str, random: Random) -> None:
    done = 0
    while done < rounds:
        is_hasty = done // KILLS_PER_DIRECTORY % 2 == 1
        with tempfile.TemporaryDirectory() as folder:
            kills = SinkKills(Path(folder), random, delivery, **(HASTY if is_hasty else {}))
            with kills:
                for _ in range(min(KILLS_PER_DIRECTORY, rounds - done)):
                    kills.run()
                    done += 1
                seen = kills.seen()
                kills.check(seen)
        doubled = sum(1 for times in seen.values() if times > 1)
        click.echo(
            f"  {delivery}: {done} of {rounds} killed ({which(kills.kills)}): {len(seen)} messages,"
            f" {doubled} of them twice"
        )


def main() -> None:
    given = arguments_of(
        "tests.crash.sink_rounds", __doc__, what="kills of each delivery", only=("delivery", POINTS)
    )
    for delivery in [given.delivery] if given.delivery else POINTS:
        kill_rounds(given.rounds, delivery, Random(given.seed))
    click.echo("all as it should be")


if __name__ == "__main__":
    main()
