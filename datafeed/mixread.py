"""Read the blocks of several datasets that are mixed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from datafeed._native import Block
from datafeed.cache.due import Due, Run
from datafeed.cache.reader import Ahead, TieredReader
from datafeed.cache.stats import TierStats
from datafeed.order import Counts

Load = Callable[[Sequence[Run]], list[Block]]
Divide = Callable[[Sequence[Run]], list[tuple[int, list[Run]]]]


S = TypeVar("S", bound=Due)


class _Seen(NamedTuple):
    """Be a step as one dataset sees it."""

    step: Due
    loads: tuple[Run, ...]
    rows: npt.NDArray[np.int32]


class MixedReading(Generic[S]):
    """Read the blocks of a mix, each by its dataset's own reader.

    Args:
        steps: The schedule of an epoch.
        loads: Of each dataset, what reads its blocks.
        divide: Returns of each run of blocks its dataset, and the runs that it is there.
    """

    def __init__(self, steps: Iterator[S], loads: Sequence[Load], divide: Divide) -> None:
        self.steps = steps
        self._loads = list(loads)
        self._divide = divide
        self._ahead: list[Ahead[_Seen]] = []

    def read_ahead(self, number: int, reader: TieredReader, left: Counts | None) -> None:
        """Read a dataset through tiers, ahead of those who decode."""
        ahead: Ahead[_Seen] = reader.ahead(self._seen_by(number, self.steps), left)
        self._ahead.append(ahead)
        self._loads[number] = ahead.read_runs
        self.steps = (seen.step for seen in ahead.steps)  # type: ignore[misc]  # those that it was given

    def read_runs(self, runs: Sequence[Run]) -> list[Block]:
        """Read several runs; see `BlockReader.read_runs`."""
        found = self._divide(runs)
        wanted: dict[int, list[Run]] = {}
        for number, parts in found:
            wanted.setdefault(number, []).extend(parts)
        blocks = {number: iter(self._loads[number](parts)) for number, parts in wanted.items()}
        return [
            block
            for (number, _), (start, stop) in zip(found, runs, strict=True)
            for block in itertools.islice(blocks[number], stop - start)
        ]

    def close(self) -> None:
        """End what reads ahead."""
        for ahead in self._ahead:
            ahead.close()

    def _seen_by(self, number: int, steps: Iterator[S]) -> Iterator[_Seen]:
        for step in steps:
            loads = [run for owner, runs in self._divide(step.loads) if owner == number for run in runs]
            yield _Seen(step, tuple(loads), step.rows)


def summed(figures: Sequence[Callable[[], tuple[TierStats, ...]]]) -> tuple[TierStats, ...]:
    """Add up the figures of tiers of one name."""
    found: dict[str, list[int]] = {}
    names = [field.name for field in fields(TierStats)][1:]
    for tier in (tier for each in figures for tier in each()):
        counts = [getattr(tier, name) for name in names]
        found[tier.name] = [a + b for a, b in zip(found.get(tier.name, [0] * len(names)), counts, strict=True)]
    return tuple(TierStats(name, *counts) for name, counts in found.items())
