"""Check what the policies fetch over the loader's own order."""

from __future__ import annotations

import pytest

from datafeed.bench.cache_simulator import CACHES, POLICIES, Simulated, simulate


def test_epoch_fetches_within_six_points_of_the_bound() -> None:
    """No policy can hit more than what fits; `epoch` comes close, two tiers add up, and plain LRU stays far off."""
    found = simulate(Simulated(epochs=3), CACHES)
    for cache, fetched in zip(CACHES, found.values(), strict=True):
        bound = 1 - sum(cache)
        assert bound - 0.001 <= fetched["belady"] <= fetched["epoch"] <= bound + 0.06
        assert fetched["epoch"] + 0.05 < fetched["lru"]


@pytest.mark.parametrize("name", POLICIES)
def test_a_cache_of_everything_fetches_once(name: str) -> None:
    """Where all fits, each extent is fetched once, in the first epoch."""
    assert POLICIES[name]([[0, 1, 2], [2, 0, 1]], [3]) == [3, 0]


def test_belady_keeps_what_is_read_next() -> None:
    """The known future decides between two that are equal to every other policy."""
    assert POLICIES["belady"]([[0, 1, 2, 3, 2], [3, 2]], [2]) == [4, 0]
