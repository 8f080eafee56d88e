"""Where and what was measured: facts that a figure means nothing without."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct

import emberq
from emberq.kernel import TWIN
from emberq.remoting.event_loop import loop_factory

_ROOT = Path(__file__).parents[1]


class Facts(Struct, frozen=True, kw_only=True):
    """No names of hosts or users and no paths: results are published."""

    date: str
    commit: str
    is_modified: bool  # sources differed from that commit
    emberq: str
    python: str
    msgspec: str
    loop: str
    kernel: str
    cpu: str
    cores: int
    memory_gb: int
    load_average: float
    java: str | None = None
    twin: str = "pure"  # of emberq.kernel; results before it existed do not say


def gather(*, java: str | None) -> Facts:
    return Facts(
        date=datetime.now(UTC).date().isoformat(),
        commit=_git("rev-parse", "--short=10", "HEAD") or "unknown",
        is_modified=bool(_git("status", "--porcelain", "--", "src", "benchmarks/*.py")),
        emberq=emberq.__version__,
        python=platform.python_version(),
        msgspec=version("msgspec"),
        loop=_loop(),
        twin=TWIN,
        kernel=platform.release().partition("-")[0],
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        load_average=round(os.getloadavg()[0], 2),
        java=java,
    )


def _loop() -> str:
    if loop_factory() is None:
        return "asyncio"
    try:
        return f"uvloop {version('uvloop')}"
    except PackageNotFoundError:
        return "uvloop"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
