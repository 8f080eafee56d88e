"""The commands of `python3 -m tools`, one per thing that the Makefile cannot say in a line."""

import argparse
import sys

from tools.environment import SetupFailed
from tools.interop import run_interop
from tools.locking import write_locks
from tools.setup import prepare


def run(arguments: list[str]) -> int:
    """Run one command; a failure that set-up can explain is one line, not a traceback."""
    options = build_parser().parse_args(arguments)
    try:
        return execute(options)
    except SetupFailed as failure:
        print(f"set-up failed: {failure}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return 130


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m tools", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    setup = commands.add_parser("setup", help="make or complete .venv from the locks of layers")
    setup.add_argument("layers", nargs="+")

    lock = commands.add_parser("lock", help="write requirements/*.lock from pyproject.toml")
    lock.add_argument("--upgrade", action="store_true", help="take the newest allowed versions")

    interop = commands.add_parser("interop", help="run the official software against EmberQ")
    interop.add_argument("--full", action="store_true", help="the whole matrix, not CI's part")

    return parser


def execute(options: argparse.Namespace) -> int:
    if options.command == "setup":
        prepare(options.layers)
    elif options.command == "lock":
        write_locks(upgrade=options.upgrade)
    elif options.command == "interop":
        return run_interop(full=options.full)
    return 0
