"""A broker with 100,000 delayed, timed and half messages under way is killed, again and again:
python -m tests.crash.waiting_rounds --rounds 50.
"""

import asyncio
import tempfile
from pathlib import Path
from random import Random

import click

from tests.crash.rounds import arguments_of
from tests.support.waiting_kills import WaitingKills


async def kill_rounds(rounds: int, messages: int, longest_s: int, random: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kills = WaitingKills(Path(folder), random, longest_s)
        for done in range(1, rounds + 1):
            under_way = await kills.round(messages)
            click.echo(f"  {done} of {rounds} brokers killed, {under_way} messages under way")
        await kills.finish()
    late, payer = kills.late, kills.payer
    click.echo(
        f"{len(late.acknowledged)} delayed and timed messages acknowledged and delivered, none "
        f"early, {late.delivered.total() - len(late.delivered)} deliveries repeated; "
        f"{len(payer.stored)} half messages, {len(payer.ended)} ended, {len(payer.asked)} asked "
        f"about, all as they should be"
    )


def main() -> None:
    given = arguments_of(
        "tests.crash.waiting_rounds",
        __doc__,
        messages=(100_000, "under way at every kill"),
        longest=(300, "seconds that a message waits"),
    )
    asyncio.run(kill_rounds(given.rounds, given.messages, given.longest, Random(given.seed)))


if __name__ == "__main__":
    main()
