"""Check the figures that tell how far an order is from a uniform permutation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from datafeed.bench.shuffle_peers import PEERS, Shards, missing, order_apart
from datafeed.bench.shuffle_quality import (
    DEFAULT_WINDOW,
    Sorted,
    converted_order,
    full_order,
    measure_quality,
    uniform_quality,
    window_order,
)

IMAGENET = Sorted()
SMALL = Sorted(records=64_000, shards=10, classes=100, batch_size=64)


def test_a_random_permutation_has_the_figures_expected_of_it() -> None:
    """What is expected is what numpy's own permutation gives."""
    found = measure_quality(np.random.default_rng(0).permutation(SMALL.records), SMALL)
    expected = uniform_quality(SMALL)
    assert found.displacement == pytest.approx(expected.displacement, rel=0.01)
    assert found.neighbours_kept == pytest.approx(expected.neighbours_kept, rel=0.2)
    assert found.classes_a_batch == pytest.approx(expected.classes_a_batch, rel=0.005)
    assert found.chi_square == pytest.approx(expected.chi_square, rel=0.02)


def test_the_stored_order_has_the_worst_figures() -> None:
    """Nothing moves, every neighbour stays, and a batch is of one class (640 records are ten batches of 64)."""
    found = measure_quality(np.arange(SMALL.records), SMALL)
    assert (found.displacement, found.neighbours_kept, found.classes_a_batch) == (0, 1, 1)
    assert found.chi_square == pytest.approx(64)


def test_the_expected_figures_are_exact_for_a_few_records() -> None:
    """Over all 24 permutations of 4 records, the means are those that are expected."""
    case = Sorted(records=4, shards=1, classes=2, batch_size=2)
    found = [measure_quality(np.array(turn), case) for turn in itertools.permutations(range(4))]
    expected = uniform_quality(case)
    for name in ("displacement", "neighbours_kept", "classes_a_batch", "chi_square"):
        assert np.mean([getattr(one, name) for one in found]) == pytest.approx(getattr(expected, name))


def test_a_missing_record_is_an_error() -> None:
    """An order that repeats a record is not measured."""
    order = np.arange(SMALL.records)
    order[1] = 0
    with pytest.raises(ValueError, match="each of 64000 records once, found 63999 of 64000"):
        measure_quality(order, SMALL)


def test_the_default_order_of_a_shuffled_conversion_is_as_good_as_uniform() -> None:
    """Within 1 % of the classes a batch and 2 % of chi-square, where the conversion shuffled as it does unless told."""
    found, expected = measure_quality(converted_order(IMAGENET, DEFAULT_WINDOW), IMAGENET), uniform_quality(IMAGENET)
    assert found.displacement == pytest.approx(expected.displacement, rel=0.02)
    assert found.neighbours_kept == pytest.approx(expected.neighbours_kept, rel=0.2)
    assert found.classes_a_batch == pytest.approx(expected.classes_a_batch, rel=0.01)
    assert found.chi_square == pytest.approx(expected.chi_square, rel=0.02)


def test_the_default_order_of_sorted_data_holds_most_classes_of_uniform() -> None:
    """Where nothing shuffled before, a batch holds at least 70 % of the classes, and records lie anywhere."""
    found, expected = measure_quality(window_order(IMAGENET, DEFAULT_WINDOW), IMAGENET), uniform_quality(IMAGENET)
    assert found.displacement == pytest.approx(expected.displacement, rel=0.02)
    assert found.classes_a_batch >= 0.7 * expected.classes_a_batch
    assert found.chi_square <= 2


def test_the_full_order_is_as_good_as_uniform() -> None:
    """A permutation of all records has the expected figures on sorted data."""
    found, expected = measure_quality(full_order(SMALL), SMALL), uniform_quality(SMALL)
    assert found.classes_a_batch == pytest.approx(expected.classes_a_batch, rel=0.005)
    assert found.neighbours_kept == pytest.approx(expected.neighbours_kept, rel=0.2)


@pytest.mark.peers
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_gives_each_record_once(name: str) -> None:
    """Its own code shuffles record numbers, and a larger buffer keeps fewer neighbours."""
    if missing(name):
        pytest.skip(f"{PEERS[name].package} is not installed")
    found = measure_quality(order_apart(name, Shards(SMALL.records, SMALL.shards, 2_000)), SMALL)
    assert found.neighbours_kept < 0.2
    assert found.classes_a_batch > 2
