"""Kills in the middle of transactions: python -m tests.crash.transaction_rounds --rounds 50."""

import asyncio
import tempfile
from pathlib import Path
from random import Random

import click

from tests.crash.rounds import arguments_of
from tests.support.transaction_kills import TransactionKills

KILLS_PER_DIRECTORY = 10


async def kill_rounds(rounds: int, random: Random) -> None:
    done = 0
    while done < rounds:
        flush = ("ASYNC_FLUSH", "SYNC_FLUSH")[done // KILLS_PER_DIRECTORY % 2]
        with tempfile.TemporaryDirectory() as folder:
            kills = TransactionKills(Path(folder), random, flushDiskType=flush)
            for _ in range(min(KILLS_PER_DIRECTORY, rounds - done)):
                await kills.run()
                done += 1
            seen = await kills.settle()
            kills.check(seen)
        doubled = sum(1 for times in seen.values() if times > 1)
        click.echo(
            f"  {done} of {rounds} brokers killed under {flush}: {len(kills.stored)} half messages,"
            f" {len(kills.ended)} ended, {len(kills.asked)} asked about, {len(seen)} delivered,"
            f" {doubled} of unanswered ends twice"
        )


def main() -> None:
    given = arguments_of("tests.crash.transaction_rounds", __doc__)
    asyncio.run(kill_rounds(given.rounds, Random(given.seed)))
    click.echo("all as it should be")


if __name__ == "__main__":
    main()
