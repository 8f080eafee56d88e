"""A benchmark that is far from its goals fails where that is asked for."""

import pytest

from benchmarks.figures import Goal
from benchmarks.gate import exit_code


def goal(name: str, share: float | None) -> Goal:
    is_met = None if share is None else share >= 1
    return Goal(name=name, target="at least 10", measured="some", is_met=is_met, share=share)


def test_a_figure_far_below_its_goal_fails_the_gate_and_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    goals = [goal("index", 0.79), goal("count", 0.81), goal("archive", 1.4), goal("open", None)]

    assert exit_code(goals, is_gate=True) == 1
    said = capsys.readouterr().out
    assert "  index: some, wanted at least 10" in said
    assert not any(name in said for name in ("count", "archive", "open"))


def test_a_run_near_its_goals_or_without_the_gate_ends_well() -> None:
    assert exit_code([goal("count", 0.81), goal("open", None)], is_gate=True) == 0
    assert exit_code([goal("index", 0.1)], is_gate=False) == 0
