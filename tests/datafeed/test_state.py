"""Check that a state is taken back only where it means the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from datafeed.errors import StateMismatch
from datafeed.order import Spec
from datafeed.state import OrderIdentity, Position, read_state, write_state

IDENTITY = OrderIdentity("ab12", 100, 2 * 2**20, Spec("window", 7, 48, 64))


def test_a_state_survives_json() -> None:
    """What is written is what is read."""
    state = json.loads(json.dumps(write_state(IDENTITY, Position(3, 42))))
    assert read_state(IDENTITY, state) == Position(3, 42)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (replace(IDENTITY, dataset="cd34"), "dataset is 'ab12' in the state and 'cd34' here"),
        (replace(IDENTITY, spec=Spec("window", 8, 48, 64)), "seed is 7 in the state and 8 here"),
        (replace(IDENTITY, spec=Spec("full", 7, 48, 64)), "mode is 'window' in the state and 'full' here"),
        (replace(IDENTITY, spec=Spec("window", 7, 24, 64)), "lanes is 48 in the state and 24 here"),
        (replace(IDENTITY, extent_size=1), "extent_size is 2097152 in the state and 1 here"),
    ],
)
def test_f71_a_state_of_another_order_is_refused_by_name(other: OrderIdentity, named: str) -> None:
    """The difference is named."""
    with pytest.raises(StateMismatch, match=named):
        read_state(other, write_state(IDENTITY, Position(0, 0)))


@pytest.mark.parametrize("change", [{"format": 2}, {"order": 99}, {"epoch": -1}, {"position": 101}, {"position": "1"}])
def test_f71_a_state_of_another_version_or_out_of_range_is_refused(change: dict[str, object]) -> None:
    """Nothing is guessed."""
    with pytest.raises(StateMismatch):
        read_state(IDENTITY, {**write_state(IDENTITY, Position(0, 0)), **change})


def test_what_is_no_state_is_refused() -> None:
    """Such as the None that a run without a checkpoint hands on."""
    with pytest.raises(StateMismatch, match="expected a dict, found None"):
        read_state(IDENTITY, None)  # type: ignore[arg-type]


def test_f71_a_truncated_state_names_what_it_lacks() -> None:
    """The fields that are missing are listed."""
    state = write_state(IDENTITY, Position(0, 0))
    del state["lanes"], state["position"]
    with pytest.raises(StateMismatch, match="lacks lanes, position"):
        read_state(IDENTITY, state)
