"""All rounds of the timers' crash tests: python -m tests.crash.timer_rounds --rounds 50."""

import asyncio
import tempfile
from pathlib import Path
from random import Random

import click

from tests.crash.rounds import arguments_of
from tests.support.timer_kills import TimerKills

ROUNDS_PER_DIRECTORY = 10


async def kill_rounds(rounds: int, messages: int, random: Random) -> None:
    done = 0
    while done < rounds:
        flush = ("ASYNC_FLUSH", "SYNC_FLUSH")[done // ROUNDS_PER_DIRECTORY % 2]
        with tempfile.TemporaryDirectory() as folder:
            kills = TimerKills(Path(folder), random, flushDiskType=flush)
            for _ in range(min(ROUNDS_PER_DIRECTORY, rounds - done)):
                await kills.round(messages // rounds)
                done += 1
            await kills.finish()
        if kills.early:
            raise SystemExit("\n".join(kills.early[:20]))
        repeated = sum(kills.delivered.values()) - len(kills.delivered)
        click.echo(
            f"  {done} of {rounds} brokers killed, {flush}: {len(kills.acknowledged)} messages "
            f"acknowledged and delivered, {repeated} deliveries repeated, none early"
        )


def main() -> None:
    given = arguments_of(
        "tests.crash.timer_rounds", __doc__, messages=(100_000, "in all rounds together")
    )
    asyncio.run(kill_rounds(given.rounds, given.messages, Random(given.seed)))


if __name__ == "__main__":
    main()
