"""Name several converted datasets and how much of each a Loader mixes."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np

from datafeed.dataset import Dataset
from datafeed.errors import ConfigError
from datafeed.sizes import whole_number
from datafeed.splitmix import Numbers
from datafeed.weave import shares_of

Stop = Literal["first", "longest"] | int


class Mix:
    """Name datasets that a Loader mixes, and how much of each.

    Samples come in these proportions all along, exact to a few samples in every part of an epoch. A dataset gives all
    of its samples once, in an order of its own, before any of them again: the next epoch goes on where one ends.

    Args:
        weights: By dataset (a path, URL or `datafeed.Dataset`, as a subset is), how much of the samples come from it:
            numbers above 0, of which only the proportions count.
        seed: Chooses which dataset begins, and so the turns that they take.
        run: How many samples in a row come from one dataset: 1 mixes each batch; as many as a batch over all ranks
            has, and each batch is of one dataset. The Loader's lanes must divide it.
        stop: Where an epoch ends. "first": when the dataset that is through first has given each of its samples.
            "longest": when every dataset has. Or how many samples it has.

    Raises:
        ConfigError: A value is not what it should be; it is named.
    """

    def __init__(
        self,
        weights: Mapping[str | Path | Dataset, float | Fraction],
        *,
        seed: int = 0,
        run: int = 1,
        stop: Stop = "first",
    ) -> None:
        if not isinstance(weights, Mapping):
            raise ConfigError(f"a Mix takes a dict from datasets to weights, found {weights!r:.100}")
        if not weights:
            raise ConfigError("a Mix of no dataset has no samples: name some")
        for dataset in weights:
            if not isinstance(dataset, (str, Path, Dataset)):
                raise ConfigError(f"a Mix takes paths, URLs and datafeed.Dataset, found {dataset!r:.100}")
        exact = [_exact(dataset, weight) for dataset, weight in weights.items()]
        self.datasets = tuple(weights)
        self.weights = tuple(weight / sum(exact) for weight in exact)
        self.seed = whole_number("seed", seed)
        self.run = whole_number("run", run, 1)
        if not isinstance(stop, str):
            stop = whole_number("stop", stop, 1)
        elif stop not in ("first", "longest"):
            raise ConfigError(f"stop must be 'first', 'longest' or a number of samples, found {stop!r}")
        self.stop: Stop = stop

    def __repr__(self) -> str:
        named = ", ".join(f"{dataset!r}: {weight}" for dataset, weight in zip(self.datasets, self.weights, strict=True))
        return f"Mix({{{named}}}, seed={self.seed}, run={self.run}, stop={self.stop!r})"


def samples_of_each(mix: Mix, datasets: Sequence[Dataset]) -> list[int]:
    """Return how many samples of an epoch come from each dataset.

    Raises:
        ConfigError: None does from some.
    """
    lengths = np.array([len(dataset) for dataset in datasets])
    for dataset, length in zip(datasets, lengths.tolist(), strict=True):
        if not length:
            raise ConfigError(f"{dataset!r} holds no record: leave it out of the mix")
    shares = shares_of(mix.weights, 1, mix.seed, mix.run)

    def counts(samples: int) -> Numbers:
        return shares.of(np.array(samples), np.array(0))

    if mix.stop == "first":
        samples = _last(lambda samples: bool((counts(samples) <= lengths).all()))
    elif mix.stop == "longest":
        samples = 1 + _last(lambda samples: bool((counts(samples) < lengths).any()))
    else:
        samples = mix.stop
    found: list[int] = counts(samples).tolist()
    if 0 in found:
        dataset = datasets[found.index(0)]
        raise ConfigError(
            f"an epoch of {samples:,} samples of this mix would hold none of {dataset!r}: give it more weight, or "
            "stop= more samples"
        )
    return found


def _exact(dataset: object, weight: object) -> Fraction:
    """Return a weight as it was written."""
    good = isinstance(weight, (int, float, np.integer, np.floating, Fraction)) and not isinstance(weight, bool)
    if not good or not 0 < weight < math.inf:  # type: ignore[operator]  # a number
        raise ConfigError(f"a weight must be a number above 0, found {weight!r:.100} for {dataset!r:.100}")
    return weight if isinstance(weight, Fraction) else Fraction(str(weight))


def _last(holds: Callable[[int], bool]) -> int:
    """Return the last number from 0 for which something holds that does not hold for any behind it."""
    high = 1
    while holds(high):
        high *= 2
    return bisect.bisect_left(range(high), x=True, key=lambda number: not holds(number + 1))
