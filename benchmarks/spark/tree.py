"""CPU time of a process and all below it: the JVM and the Python workers of a query."""

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int, without: set[int]) -> float:
    """Of a process, its descendants and those of them that have ended; not of `without`."""
    children: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        process = int(folder.name)
        children.setdefault(int(fields[1]), []).append(process)
        # Own user and system time, then those of children that were waited for.
        seconds[process] = sum(map(int, fields[11:15])) / _TICKS_PER_S
    total, waiting = 0.0, [root]
    while waiting:
        process = waiting.pop()
        if process in without:
            continue
        total += seconds.get(process, 0.0)
        waiting += children.get(process, [])
    return total
