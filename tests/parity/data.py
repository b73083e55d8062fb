"""Offer datasets, functions and types that workers of any kind can import."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Numbers(Dataset[Any]):
    """Offer numbers by number."""

    def __init__(self, count: int = 20) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        return number


class Squares(Numbers):
    """Offer dicts."""

    def __getitem__(self, number: int) -> Any:
        return {"x": number, "y": torch.full((2,), float(number**2)), "name": f"n{number}"}


class Unsized(Dataset[Any]):
    """Offer numbers without telling how many."""

    def __getitem__(self, number: int) -> Any:
        return number


class Many(Numbers):
    """Offer samples many at a time too."""

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        return [number * 10 for number in numbers]


class Stream(IterableDataset[Any]):
    """Offer numbers in turn: each worker all of them."""

    def __init__(self, count: int = 11) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Any]:
        return iter(range(self.count))


class Sized(Stream):
    """Tell a length that need not be right."""

    def __init__(self, count: int, told: int) -> None:
        super().__init__(count)
        self.told = told

    def __len__(self) -> int:
        return self.told


class Split(Stream):
    """Offer each worker its share."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        return iter(range(self.count) if info is None else range(info.id, self.count, info.num_workers))


class Uneven(Stream):
    """Offer a worker as many numbers as its own."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        assert info is not None
        return iter([info.id] * (self.count * info.id))


class Drawn(Numbers):
    """Offer what the generators of the process give."""

    def __getitem__(self, number: int) -> Any:
        return number, torch.rand(1).item(), random.random(), np.random.random()  # noqa: NPY002  (what workers seed)


class Informed(Numbers):
    """Offer what a worker knows of itself."""

    def __getitem__(self, number: int) -> Any:
        info = get_worker_info()
        if info is None:
            return number, None
        dataset = type(info.dataset).__name__
        return number, info.id, info.num_workers, info.seed, dataset, info.worker_method, torch.get_num_threads()


class Slow(Numbers):
    """Take longer for the first samples."""

    def __getitem__(self, number: int) -> Any:
        time.sleep(0.5 if number == 0 else 0.0)
        return number


class Stuck(Numbers):
    """Never offer a sample."""

    def __getitem__(self, number: int) -> Any:
        time.sleep(30)
        return number


class Killed(Numbers):
    """Kill the process at one sample."""

    def __init__(self, count: int, how: int) -> None:
        super().__init__(count)
        self.how = how

    def __getitem__(self, number: int) -> Any:
        if number == 3:
            if self.how:
                os.kill(os.getpid(), self.how)
                signal.pause()
            os._exit(1)
        return number


class Raising(Numbers):
    """Raise at one sample."""

    def __init__(self, error: BaseException | type[BaseException], at: int = 3) -> None:
        super().__init__()
        self.error, self.at = error, at

    def __getitem__(self, number: int) -> Any:
        if number == self.at:
            raise self.error
        return number


class RaisingStream(Stream):
    """Raise in the middle."""

    def __iter__(self) -> Iterator[Any]:
        yield from range(3)
        raise ValueError("in the middle")


class Items(Dataset[Any]):
    """Offer given samples."""

    def __init__(self, *samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> Any:
        return self.samples[number]


class TwoArgumentsError(Exception):
    """Need two arguments, so that it cannot be made again from its text."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first, second)


class Pair(NamedTuple):
    """Hold two tensors."""

    first: torch.Tensor
    second: torch.Tensor


@dataclass
class Record:
    """Hold a number."""

    value: int


class Pinnable:
    """Say whether it was pinned."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples, self.pinned = samples, False

    def pin_memory(self) -> Pinnable:
        """Note it."""
        self.pinned = True
        return self

    def __repr__(self) -> str:
        return f"Pinnable({self.samples}, {self.pinned})"


def as_list(samples: list[Any]) -> list[Any]:
    """Collate to a list."""
    return list(samples)


def fails_to_collate(samples: list[Any]) -> Any:
    """Refuse to collate."""
    raise ValueError(f"no batch of {samples}")


def shifts(worker: int) -> None:
    """Change the dataset of a worker."""
    info = get_worker_info()
    assert info is not None
    info.dataset.count = 100 + worker  # type: ignore[attr-defined]


def fails_to_begin(worker: int) -> None:
    """Refuse to begin."""
    raise RuntimeError(f"worker {worker} does not begin")


class Shifted(Numbers):
    """Offer what `shifts` changed."""

    def __getitem__(self, number: int) -> Any:
        return number, self.count


def places(worker: int) -> None:
    """Choose one core for a worker."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[worker]})


class Placed(Numbers):
    """Offer the number of cores that the process may use."""

    def __getitem__(self, number: int) -> Any:
        return len(os.sched_getaffinity(0))
