"""Whether a run of a benchmark is far from its goals: `ARGS=--gate` fails then.

Goals are for a quiet machine; a figure below this share of its goal is no disturbance.
"""

from collections.abc import Iterable

from benchmarks.figures import Goal

SHARE_MIN = 0.8


def far_from(goals: Iterable[Goal]) -> list[str]:
    """A line for each goal of which the run has not that share."""
    return [
        f"{goal.name}: {goal.measured}, wanted {goal.target}"
        for goal in goals
        if goal.share is not None and goal.share < SHARE_MIN
    ]


def exit_code(goals: Iterable[Goal], *, is_gate: bool) -> int:
    lines = far_from(goals) if is_gate else []
    if lines:
        print(f"\nbelow {SHARE_MIN:.0%} of the goal:")
        for line in lines:
            print(f"  {line}")
    return 1 if lines else 0
