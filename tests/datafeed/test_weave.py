"""Check who has which position of a mix against a plain walk, and how exact the proportions are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_mix import owners

from datafeed.weave import Weave, shares_of

many_weights = st.lists(st.integers(1, 40), min_size=1, max_size=6)


def weave_of(
    weights: list[int], records: int, lanes: int, seed: int, run: int = 1
) -> tuple[Weave, list[Fraction], list[int]]:
    """Share out so many positions; return also the weights and the counts."""
    exact = [Fraction(weight, sum(weights)) for weight in weights]
    counts: list[int] = shares_of(exact, 1, seed, run).of(np.array(records), np.array(0)).tolist()
    return Weave(exact, counts, lanes, seed, run), exact, counts


def walked(weave: Weave, lanes: int) -> list[int]:
    """Return the owner of each position, from the counts alone."""
    turns = np.arange(-(-weave.records // lanes) + 1)
    before = weave.before(turns.reshape(-1, 1), np.arange(lanes))
    gained = np.diff(before, axis=1)
    assert set(gained.sum(axis=0).reshape(-1)[: weave.records].tolist()) <= {1}
    owner: list[int] = gained.argmax(axis=0).reshape(-1)[: weave.records].tolist()
    return owner


@given(weights=many_weights, records=st.integers(1, 400), lanes=st.integers(1, 30), seed=st.integers(0, 9))
@settings(max_examples=150)
def test_positions_are_those_of_the_plain_walk(weights: list[int], records: int, lanes: int, seed: int) -> None:
    """Each dataset has exactly its number, wherever its positions lie."""
    weave, exact, counts = weave_of(weights, records, lanes, seed)
    expected = owners(exact, counts, lanes, seed)
    assert walked(weave, lanes) == expected
    assert [expected.count(number) for number in range(len(counts))] == counts == weave.ends.sum(axis=1).tolist()


@given(weights=many_weights, records=st.integers(1, 400), lanes=st.integers(1, 12), turns=st.integers(1, 9))
def test_runs_are_those_of_the_plain_walk(weights: list[int], records: int, lanes: int, turns: int) -> None:
    """Each is of one dataset, but the last one shorter."""
    run = lanes * turns
    weave, exact, counts = weave_of(weights, records, lanes, 1, run)
    owner = walked(weave, lanes)
    assert run == 1 or owner == owners(exact, counts, lanes, 1, run)
    assert all(len(set(owner[at : at + run])) == 1 for at in range(0, records, run))
    for number in [number for number, count in enumerate(counts) if count]:
        at = np.flatnonzero(np.array(owner) == number)[: counts[number] // 2]
        assert weave.first(number, len(at)).tolist() == np.bincount(at % lanes, minlength=lanes).tolist()


@given(weights=many_weights, records=st.integers(1, 400), lanes=st.integers(1, 30), data=st.data())
def test_the_first_positions_of_a_dataset_lie_in_these_lanes(
    weights: list[int], records: int, lanes: int, data: st.DataObject
) -> None:
    """That is where its passes are cut."""
    weave, _, counts = weave_of(weights, records, lanes, 0)
    number = data.draw(st.sampled_from([number for number, count in enumerate(counts) if count]))
    count = data.draw(st.integers(0, counts[number]))
    at = np.flatnonzero(np.array(walked(weave, lanes)) == number)[:count]
    assert weave.first(number, count).tolist() == np.bincount(at % lanes, minlength=lanes).tolist()


def test_far_positions_are_exact() -> None:
    """Where a product of a position and a weight would not fit an int64; nothing is walked."""
    weights, records = [123_456_789, 3_000_000_019], 10**11
    weave, exact, counts = weave_of(weights, records, 48, 0)
    assert counts[0] - int(records * exact[0]) in (0, 1)
    assert weave.ends.sum(axis=1).tolist() == counts
    middle = weave.first(1, counts[1] // 2)
    assert middle.sum() == counts[1] // 2
    assert middle.max() - middle.min() <= 2


# Weights, and how far the beginnings of an epoch may be from them; those of a rank twice as far.
CASES = [
    ([7, 3], 3.0),
    ([1, 1], 3.0),
    ([1, 99], 3.0),
    ([5, 3, 2], 5.0),
    ([1, 1, 1], 5.0),
    ([8, 7, 6, 5, 4, 3, 2, 1], 8.0),
]


@pytest.mark.parametrize(("weights", "most"), CASES)
@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 48])
def test_every_beginning_has_the_proportions(weights: list[int], most: float, ranks: int) -> None:
    """Of the epoch, and of what each rank gets of it."""
    weave, exact, _ = weave_of(weights, 10_001, 48, 5)
    owner = np.array(walked(weave, 48))
    for rank in range(ranks):
        own = owner[rank::ranks]
        for number, weight in enumerate(exact):
            found = np.cumsum(own == number)
            assert np.abs(found - float(weight) * np.arange(1, len(own) + 1)).max() <= (
                most if ranks == 1 else 2 * most
            )


@pytest.mark.parametrize("weights", [[7, 3], [1, 1], [1, 99], [123, 456]])
def test_without_lanes_two_are_exact_to_one(weights: list[int]) -> None:
    """In the natural order."""
    weave, exact, _ = weave_of(weights, 5000, 1, 2)
    found = np.cumsum(np.array(walked(weave, 1)) == 0)
    assert np.abs(found - float(exact[0]) * np.arange(1, 5001)).max() < 1


def test_the_seed_changes_the_turns() -> None:
    """And nothing else of them."""
    walks = {tuple(walked(weave_of([7, 3], 100, 12, seed)[0], 12)) for seed in range(5)}
    assert len(walks) > 2
    assert {walk.count(0) for walk in walks} <= {69, 70, 71}
