"""CPU time that a tree of processes used between two looks at it, whoever ended meanwhile."""

import os
import time

from msgspec import Struct

from benchmarks.spark.tree import below

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# What ends or is compiled behind a query belongs to it, and not to the next one.
SETTLED_AFTER_S = 0.5
SETTLED_GROWTH_MAX_S = 0.02
SETTLING_MAX_S = 10.0

Times = dict[int, "ProcessTimes"]


class ProcessTimes(Struct, frozen=True):
    parent: int
    started_at: int  # tells a process from a later one with its number
    own_s: float
    waited_s: float  # of children that have ended and were waited for


def tree_times(root: int, without: set[int]) -> Times:
    times: Times = {}
    for process, stat in below(root, without):
        user, system, waited_user, waited_system = map(int, stat[11:15])
        times[process] = ProcessTimes(
            int(stat[1]),
            int(stat[19]),
            (user + system) / _TICKS_PER_S,
            (waited_user + waited_system) / _TICKS_PER_S,
        )
    return times


def settled_times(root: int, without: set[int]) -> Times:
    """When hardly anything is used any more: processes of the last query have ended, Java has
    compiled what it wanted."""
    deadline = time.monotonic() + SETTLING_MAX_S
    before = tree_times(root, without)
    while True:
        time.sleep(SETTLED_AFTER_S)
        now = tree_times(root, without)
        if grown_s(before, now) <= SETTLED_GROWTH_MAX_S or time.monotonic() > deadline:
            return now
        before = now


def grown_s(before: Times, after: Times) -> float:
    """The time of a process that ended since is with whoever waited for it, or lost if nobody did:
    then what it had used before must not be taken off."""
    total = 0.0
    waited: dict[int, float] = {}
    for process, now in after.items():
        old = before.get(process)
        if old is None or old.started_at != now.started_at:
            old = ProcessTimes(now.parent, now.started_at, 0.0, 0.0)
        total += now.own_s - old.own_s
        waited[process] = now.waited_s - old.waited_s
    for process, old in before.items():
        if process in after and after[process].started_at == old.started_at:
            continue
        heir = old.parent
        while heir not in after and heir in before:
            heir = before[heir].parent
        if heir in waited:
            waited[heir] -= old.own_s + old.waited_s
    return total + sum(max(each, 0.0) for each in waited.values())
