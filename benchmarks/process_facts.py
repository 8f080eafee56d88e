"""What Linux tells about a running process: the CPU time it used and the memory it holds."""

import os
from pathlib import Path

from msgspec import Struct

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Memory(Struct, frozen=True, kw_only=True):
    """Resident is all that is mapped in; anonymous is what no file stands behind."""

    resident_mb: float
    anonymous_mb: float


class CpuTime(Struct, frozen=True, kw_only=True):
    """User time is the program's own, system time the kernel's on its behalf."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        return self.user_s + self.system_s

    def __sub__(self, earlier: "CpuTime") -> "CpuTime":
        return CpuTime(
            user_s=self.user_s - earlier.user_s, system_s=self.system_s - earlier.system_s
        )


def cpu_time(pid: int) -> CpuTime:
    """Time of all threads since the start; Linux counts it in steps of 10 ms."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    # The second field is the program's name in parentheses and may hold blanks.
    fields = stat.rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return CpuTime(user_s=user / _TICKS_PER_S, system_s=system / _TICKS_PER_S)


def memory(pid: int) -> Memory:
    sizes_kb: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        sizes_kb[name] = int(rest.split()[0])
    return Memory(
        resident_mb=round(sizes_kb["Rss"] / 1024, 1),
        anonymous_mb=round(sizes_kb["Anonymous"] / 1024, 1),
    )
