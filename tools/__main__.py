"""`python3 -m tools COMMAND`: finds a Python that is new enough, then runs the command.

This file must parse on Python 3.6, so that an old Python gets a sentence and not a syntax error.
"""

import os
import shutil
import subprocess
import sys

PYTHON_MIN = (3, 11)
NEWER_PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11")


def starts(command: str) -> bool:
    """Tell whether `command` runs; a version manager's stub may exist without its Python."""
    return subprocess.call([command, "-c", ""], stderr=subprocess.DEVNULL) == 0


def continue_with_newer_python() -> None:
    """Replace this process by a Python that is new enough, or say in one line what is missing."""
    found = ".".join(map(str, sys.version_info[:2]))
    needed = ".".join(map(str, PYTHON_MIN))
    for name in NEWER_PYTHONS:
        newer = shutil.which(name)
        if newer and starts(newer):
            print(f"{sys.executable} is Python {found}: using {newer}", flush=True)
            os.execv(newer, [newer, "-m", "tools", *sys.argv[1:]])
    sys.exit(
        f"EmberQ needs Python {needed} or newer, and {sys.executable} is {found}: "
        f"install one, or name it with PYTHON=/path/to/python{needed}"
    )


def main() -> None:
    if sys.version_info < PYTHON_MIN:
        continue_with_newer_python()
    from tools.commands import run  # noqa: PLC0415 - newer syntax than an old Python can parse

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
