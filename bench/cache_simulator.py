"""Simulate what an epoch fetches for each policy and size of cache, over the order that the loader reads in.

Run as a program, it writes JSON: the share of the dataset's bytes that is fetched, per epoch from the second on.
"""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from datafeed.cache.policy import Contents, Policy
from datafeed.order import Layout, Spec, WindowOrder, round_window
from datafeed.schedule import Span, once

Epochs = Sequence[Sequence[int]]
Fetched = Sequence[int]


@dataclass(frozen=True, slots=True)
class Simulated:
    """Describe a dataset of extents of one size, and how it is read.

    Args:
        extents: How many there are.
        blocks: Blocks an extent.
        records: Records a block.
        lanes: Streams of the window order.
        window: The window's share of the dataset.
        epochs: How many epochs are read.
        staged: Extents that are held for blocks still to come, whatever the cache.
    """

    extents: int = 4823
    blocks: int = 8
    records: int = 16
    lanes: int = 48
    window: float = 0.02
    epochs: int = 4
    staged: int = 144

    def reads(self) -> list[list[int]]:
        """Return, by epoch, the extents in the order in which the loader comes to need them."""
        first = np.arange(self.extents * self.blocks + 1, dtype=np.int64) * self.records
        layout = Layout(first, np.arange(self.extents + 1, dtype=np.int64) * self.blocks)
        window = round_window(int(layout.records * self.window) // self.lanes)
        spec = Spec("window", 0, self.lanes, window)
        return [list(self._epoch(layout, WindowOrder(spec, layout, epoch))) for epoch in range(self.epochs)]

    def _epoch(self, layout: Layout, order: WindowOrder) -> Iterator[int]:
        """Walk the loader's own schedule; an extent that stays staged until its last block is read once."""
        left = [self.blocks] * self.extents
        staged: dict[int, None] = {}
        for step in once(order, layout, Span(0, layout.records, 256, 16)):
            for start, stop in step.loads:
                extent = start // self.blocks
                left[extent] -= stop - start
                if extent not in staged:
                    yield extent
                staged.pop(extent, None)
                if left[extent]:
                    staged[extent] = None
                    if len(staged) > self.staged:
                        del staged[next(iter(staged))]


def run_policy(policy: Policy, epochs: Epochs, budgets: Sequence[int]) -> Fetched:
    """Return how many extents each epoch fetches.

    Args:
        policy: The policy of all tiers.
        epochs: The extents in the order of reading, by epoch.
        budgets: Extents that each tier holds, the fastest first.
    """
    tiers: list[Contents[int]] = [Contents(budget, policy) for budget in budgets]
    return [sum(_read(tiers, extent) for extent in epoch) for epoch in epochs]


def _read(tiers: Sequence[Contents[int]], extent: int) -> bool:
    """Read as the tiers do: the fastest that admits an extent holds it, and a hit is promoted where there is room."""
    for number, tier in enumerate(tiers):
        if tier.use(extent):
            for faster in tiers[:number]:
                faster.admit(extent, 1, copied=True)
            return False
    for tier in tiers:
        if tier.admit(extent, 1) is not None:
            break
    return True


def run_belady(epochs: Epochs, budgets: Sequence[int]) -> Fetched:
    """Return what `run_policy` does for the policy that knows the future: what is needed last is not kept."""
    budget = sum(budgets)
    order = [extent for epoch in epochs for extent in epoch]
    coming = _next_uses(order)
    kept: dict[int, int] = {}
    latest: list[tuple[int, int]] = []
    fetched, position = [], 0
    for epoch in epochs:
        misses = 0
        for extent in epoch:
            misses += extent not in kept
            kept[extent] = coming[position]
            heapq.heappush(latest, (-coming[position], extent))
            while len(kept) > budget:
                use, old = heapq.heappop(latest)
                if kept.get(old) == -use:
                    del kept[old]
            position += 1
        fetched.append(misses)
    return fetched


def _next_uses(order: Sequence[int]) -> list[int]:
    coming, seen = [0] * len(order), dict[int, int]()
    for position in range(len(order) - 1, -1, -1):
        coming[position] = seen.get(order[position], len(order) + order[position])
        seen[order[position]] = position
    return coming


POLICIES: dict[str, Callable[[Epochs, Sequence[int]], Fetched]] = {
    "lru": partial(run_policy, "lru"),
    "epoch": partial(run_policy, "epoch"),
    "belady": run_belady,
}


def simulate(case: Simulated, caches: Sequence[Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return, by cache and by policy, the share of the dataset that an epoch fetches from the second on.

    Args:
        case: The dataset.
        caches: The tiers of each cache as shares of the dataset, the fastest first.
    """
    epochs = case.reads()
    return {
        " + ".join(f"{share:.0%}" for share in cache): {
            name: round(_later(run(epochs, [round(share * case.extents) for share in cache])) / case.extents, 4)
            for name, run in POLICIES.items()
        }
        for cache in caches
    }


def _later(fetched: Fetched) -> float:
    return sum(fetched[1:]) / (len(fetched) - 1)


CACHES = ((0.25,), (0.5,), (0.75,), (0.9,), (0.1, 0.4))

if __name__ == "__main__":
    json.dump(simulate(Simulated(), CACHES), sys.stdout, indent=1)
