"""All rounds of the store's crash tests: python -m tests.crash.store_rounds --rounds 200."""

import logging
import tempfile
from pathlib import Path
from random import Random

import click

from emberq.store.config import FlushKind
from tests.crash.rounds import arguments_of
from tests.support.store_faults import (
    FAULTS,
    check_cleaning_fault,
    check_fault,
    operations_of_a_run,
    operations_of_cleaning,
)
from tests.support.store_kills import KillRounds
from tests.support.store_lives import StoreLives
from tests.support.stores import SYNC

KILLS_PER_DIRECTORY = 8
LIVES_PER_DISK = 6


def kill_rounds(rounds: int, seed: int) -> None:
    """Processes are killed, by turns under ASYNC_FLUSH and SYNC_FLUSH."""
    random = Random(seed)
    done = acknowledged = 0
    while done < rounds:
        kind = (FlushKind.ASYNC_FLUSH, FlushKind.SYNC_FLUSH)[done // KILLS_PER_DIRECTORY % 2]
        with tempfile.TemporaryDirectory() as folder:
            kills = KillRounds(Path(folder), kind, random)
            for _ in range(min(KILLS_PER_DIRECTORY, rounds - done)):
                kills.run()
                done += 1
            acknowledged += len(kills.acknowledged)
        click.echo(f"  {done} of {rounds} processes killed, {acknowledged} messages found")


def power_rounds(rounds: int, seed: int) -> None:
    """Power fails on a disk in memory, several times per disk."""
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            changes = SYNC if number % 2 else {}
            lives = StoreLives(Path(folder), Random(seed + number), **changes)
            for _ in range(LIVES_PER_DISK):
                lives.live()
    click.echo(f"  {rounds} disks of {LIVES_PER_DISK} lives each")


def fault_rounds() -> None:
    """Every single call fails once."""
    for name, fault in FAULTS.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            count = operations_of_a_run(root)
            for number in range(count):
                check_fault(fault, number, root)
            cleaning_count = operations_of_cleaning(root)
            for number in range(cleaning_count):
                check_cleaning_fault(fault, number, root)
        click.echo(f"  {count} calls failed, {cleaning_count} of cleaning, the disk {name}")


def main() -> None:
    given = arguments_of(
        "tests.crash.store_rounds", __doc__, rounds=200, what="processes killed, disks wrecked"
    )
    logging.disable(logging.CRITICAL)  # stores report every damage that is done to them
    click.echo("kills")
    kill_rounds(given.rounds, given.seed)
    click.echo("power failures")
    power_rounds(given.rounds, given.seed)
    click.echo("failing calls")
    fault_rounds()
    click.echo("all found")


if __name__ == "__main__":
    main()
