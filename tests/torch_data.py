"""Offer torch Datasets and samplers that keep, or do not keep, a state of their own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, Sampler, get_worker_info

from datafeed import Loader


class Shuffled(Sampler[int]):
    """Draw an order from one of the generators that the process shares, or from one of its own.

    Args:
        count: How many numbers.
        draw: Which generator.
    """

    def __init__(self, count: int, draw: str) -> None:
        self.count, self.draw = count, draw
        self.rng = np.random.default_rng(5)
        self.old = np.random.RandomState(5)
        self.own = random.Random(5)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.count))
        match self.draw:
            case "python":
                random.shuffle(order)
            case "numpy":
                np.random.shuffle(order)  # noqa: NPY002  (what users do)
            case "torch":
                order = torch.randperm(self.count).tolist()
            case "generator":
                self.rng.shuffle(order)
            case "state":
                self.old.shuffle(order)
            case "own":
                self.own.shuffle(order)
        return iter(order)


class Walking(Sampler[int]):
    """Begin each epoch where the last one ended, and say where that is."""

    def __init__(self, count: int) -> None:
        self.count, self.start = count, 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        first = self.start
        self.start = (first + 3) % self.count
        return iter([(first + number) % self.count for number in range(self.count)])

    def state_dict(self) -> dict[str, Any]:
        """Return the first number of the next epoch."""
        return {"start": self.start}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take it."""
        self.start = state["start"]


class Lines(IterableDataset[int]):
    """Offer numbers in turn, each worker its share."""

    def __init__(self, count: int = 23) -> None:
        self.count = count

    def shares(self) -> range:
        """Return what this process offers."""
        info = get_worker_info()
        return range(self.count) if info is None else range(info.id, self.count, info.num_workers)

    def __iter__(self) -> Iterator[int]:
        yield from self.shares()


class Kept(Lines):
    """Say how far they are."""

    def __init__(self, count: int = 23) -> None:
        super().__init__(count)
        self.done = 0
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        for number in self.shares()[self.done :]:
            self.done += 1
            yield number
        self.done = 0

    def set_epoch(self, epoch: int) -> None:
        """Note it."""
        self.epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Return how many were offered."""
        return {"done": self.done}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind them."""
        self.done = state["done"]


class Unkept(Kept):
    """Fail to say how far they are."""

    def state_dict(self) -> dict[str, Any]:
        """Raise."""
        raise ValueError("not now")


def state_of(loader: Loader) -> dict[str, Any]:
    """Return a loader's state as it comes back from a file."""
    state: dict[str, Any] = json.loads(json.dumps(loader.state_dict()))
    return state


def numbers(batches: Any) -> list[Any]:
    """Return batches of numbers as lists."""
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in batches]
