"""All rounds of the timers' crash tests: python -m tests.crash.timer_rounds --rounds 50."""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from random import Random

import click

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
    parser = argparse.ArgumentParser(prog="python -m tests.crash.timer_rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="brokers killed")
    parser.add_argument("--messages", type=int, default=100_000, help="in all rounds together")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    arguments = parser.parse_args()
    click.echo(f"seed {arguments.seed}")
    random = Random(arguments.seed)
    asyncio.run(kill_rounds(arguments.rounds, arguments.messages, random))


if __name__ == "__main__":
    main()
