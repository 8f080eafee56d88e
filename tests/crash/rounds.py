"""What the programs of long crash tests have in common: their arguments, and a seed to repeat."""

import argparse
import time
from collections.abc import Iterable

import click


def arguments_of(
    name: str,
    description: str | None,
    *,
    rounds: int = 50,
    what: str = "brokers killed",
    only: tuple[str, Iterable[str]] | None = None,
    **numbers: tuple[int, str],
) -> argparse.Namespace:
    """`--rounds`, `--seed`, perhaps one of several by name, and further numbers by theirs; tells
    the seed."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help=what)
    if only is not None:
        flag, names = only
        parser.add_argument(f"--{flag}", choices=sorted(names), help="only this one")
    for flag, (default, meaning) in numbers.items():
        parser.add_argument(f"--{flag}", type=int, default=default, help=meaning)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    given = parser.parse_args()
    click.echo(f"seed {given.seed}")
    return given


def which(kills: dict[str, int]) -> str:
    """Who was killed, and how often."""
    return ", ".join(f"{count} {name}" for name, count in sorted(kills.items()))
