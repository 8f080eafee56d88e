"""Processes below another one, found in /proc."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def descendants(root: int) -> list[int]:
    """All processes below one, parents first."""
    children: dict[int, list[int]] = {}
    for process, parent in _all():
        children.setdefault(parent, []).append(process)
    found: list[int] = []
    waiting = [root]
    while waiting:
        own = children.get(waiting.pop(), [])
        found += own
        waiting += own
    return found


def command_line(process: int) -> str:
    """Its arguments, or nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def kill_tree(root: int) -> None:
    """A process and all below it at once, as when a machine goes down."""
    for process in [root, *descendants(root)]:
        kill_one(process)


def kill_one(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _all() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                yield int(folder.name), int(fields[1])
