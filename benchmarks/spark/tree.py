"""A process and all below it, and their memory: the JVM and the Python workers of a query."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_PR_SET_CHILD_SUBREAPER = 36


class Peaks(Struct, frozen=True, kw_only=True):
    """The most that single processes ever had resident."""

    driver_mb: float  # the JVM
    worker_mb: float  # the largest of the Python workers


def keep_orphans() -> None:
    """Workers whose parent ends first become children of this process: their time counts on."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def peaks(root: int, without: set[int]) -> Peaks:
    """Of those that are still running: idle workers are kept for a minute."""
    driver_mb = worker_mb = 0.0
    for process, _ in below(root, without):
        if process == root:
            continue  # it asks, and runs no query itself
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue  # it has just ended
        if status.startswith("Name:\tjava\n"):
            driver_mb = max(driver_mb, peak_mb(status))
        else:
            worker_mb = max(worker_mb, peak_mb(status))
    return Peaks(driver_mb=driver_mb, worker_mb=worker_mb)


def peak_mb(status: str) -> float:
    """From a process's `status`; nothing of one that has ended and was not waited for."""
    found = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0].split()[1]) / 1024 if found else 0.0


def below(root: int, without: set[int]) -> Iterator[tuple[int, list[str]]]:
    """Processes with the fields of their `stat` behind the name."""
    children: dict[int, list[int]] = {}
    stats: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        process = int(folder.name)
        children.setdefault(int(fields[1]), []).append(process)
        stats[process] = fields
    waiting = [root]
    while waiting:
        process = waiting.pop()
        if process in stats and process not in without:
            yield process, stats[process]
            waiting += children.get(process, [])
