"""Prove what samples come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from datafeed.bench.case import Sample
from datafeed.bench.goals import GOALS, Goal, compare
from datafeed.bench.measures import MEASURES


def taken(*values: float) -> list[Sample]:
    """One sample a round."""
    return [Sample(value, 10, 1.0, facts={"size": value / 2}) for value in values]


ROUNDS = {"ours": taken(90, 200, 80), "slow": taken(10, 20, 10), "fast": taken(100, 400, 100)}
GOAL = Goal("what", "samples/s", "ours", ("slow", "fast"), goal=0.8)


def test_compare_takes_the_median_of_the_ratios_to_the_best_peer() -> None:
    """A round that ran slowly for both sides does not count twice."""
    row = compare(GOAL, ROUNDS)
    assert (row.ours, row.peer, row.theirs, row.ratio, row.holds) == (90, "fast", 100, 0.8, True)
    assert (row.samples, row.peer_samples) == (30, 30)


@pytest.mark.parametrize(
    ("judge", "goal", "fact", "holds"),
    [
        ("ratio", 0.81, "", False),
        ("ratio", None, "", None),
        ("at least", 90, "", True),
        ("at least", 91, "", False),
        ("at most", 90, "", True),
        ("at most", 89, "", False),
        ("at most", 45, "size", True),
        ("at most", 44, "size", False),
    ],
)
def test_compare_judges_as_the_goal_says(judge: str, goal: float | None, fact: str, holds: object) -> None:
    """The ratio, the figure or a fact is held against the goal."""
    changed = replace(GOAL, judge=judge, goal=goal, fact=fact)  # type: ignore[arg-type]  # parametrized
    assert compare(changed, ROUNDS).holds is holds


def test_goals_name_measurements_that_exist() -> None:
    """Every row can be taken."""
    named = {name for goal in GOALS for name in (goal.ours, *goal.peers)}
    assert named <= set(MEASURES)
    assert len({goal.what for goal in GOALS}) == len(GOALS)


def test_most_ratio_is_to_the_smallest_peer() -> None:
    """Where a figure should be small, the best peer is the one of the smallest figure."""
    goal = Goal("size", "bytes", "ours", ("a", "b"), "ratio at most", 1.03, "stored_bytes")
    rounds = {name: [Sample(0, 1, 1, facts={"stored_bytes": size})] for name, size in (("a", 100), ("b", 90))}
    row = compare(goal, {**rounds, "ours": [Sample(0, 1, 1, facts={"stored_bytes": 92})]})
    assert (row.peer, row.theirs, row.holds) == ("b", 90, True)
    row = compare(goal, {**rounds, "ours": [Sample(0, 1, 1, facts={"stored_bytes": 94})]})
    assert row.holds is False
