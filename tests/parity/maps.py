"""Compare loaders over datasets that give samples by number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from parity.compare import Maker, case, error_of
from parity.data import Drawn, Many, Numbers, Raising, Squares, Unsized, as_list
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)
from torch.utils.data.distributed import DistributedSampler

PAIRS = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))


def seeded() -> torch.Generator:
    """Return a generator in a known state."""
    return torch.Generator().manual_seed(3)


@case
def defaults(make: Maker) -> object:
    """Batches of one."""
    return list(make(Numbers())), len(make(Numbers()))


@case
def short_last_batch(make: Maker) -> object:
    """It comes."""
    return list(make(Squares(), batch_size=6)), len(make(Squares(), batch_size=6))


@case
def dropped_last_batch(make: Maker) -> object:
    """It does not come."""
    return list(make(Squares(), 6, drop_last=True)), len(make(Squares(), 6, drop_last=True))


@case
def batch_over_the_dataset(make: Maker) -> object:
    """One batch, or none."""
    return list(make(Numbers(3), 5)), list(make(Numbers(3), 5, drop_last=True)), len(make(Numbers(3), 5))


@case
def no_batches(make: Maker) -> object:
    """Samples are converted, not collated."""
    return list(make(Squares(4), batch_size=None)), len(make(Squares(4), batch_size=None))


@case
def no_batches_with_collate(make: Maker) -> object:
    """The function gets samples."""
    return list(make(Numbers(4), batch_size=None, collate_fn=str))


@case
def no_batches_with_a_batch_sampler_as_sampler(make: Maker) -> object:
    """The dataset gets lists of numbers."""
    sampler = BatchSampler(RandomSampler(range(6), generator=seeded()), 2, drop_last=False)
    return list(make(PAIRS, batch_size=None, sampler=sampler))


@case
def empty(make: Maker) -> object:
    """No batch, length 0."""
    return list(make(Numbers(0))), len(make(Numbers(0))), list(make([]))


@case
def a_list(make: Maker) -> object:
    """Whatever has length and items is a dataset."""
    return list(make([3, 1, 2], 2)), list(make(range(5), 2)), list(make(torch.arange(4), 3)), list(make(np.arange(3)))


@case
def a_dict(make: Maker) -> object:
    """Its keys are numbers, or not."""
    return list(make({0: "a", 1: "b"})), error_of(lambda: list(make({"a": 1})))


@case
def keys_of_a_sampler(make: Maker) -> object:
    """Samplers may give keys of any kind."""
    return list(make({"a": 1, "b": 2}, sampler=["b", "a"], batch_size=2))


@case
def an_unsized_dataset(make: Maker) -> object:
    """A sampler makes up for it."""
    return error_of(lambda: list(make(Unsized()))), list(make(Unsized(), sampler=[4, 2]))


@case
def subset(make: Maker) -> object:
    """Of a subset."""
    return list(make(Subset(Subset(Squares(), [4, 9, 2, 7]), [3, 0]), 2))


@case
def splits(make: Maker) -> object:
    """Drawn with a generator."""
    return [list(make(part, 3)) for part in random_split(Numbers(), [0.5, 0.3, 0.2], generator=seeded())]


@case
def concatenated(make: Maker) -> object:
    """One behind the other."""
    both = ConcatDataset([Numbers(3), Squares(0), Numbers(4)])
    return list(make(both, 2)), len(make(both, 2)), len(make(Numbers(2) + Numbers(3)))


@case
def stacked(make: Maker) -> object:
    """Side by side, in tuples and dicts."""
    return list(make(StackDataset(Numbers(4), Squares(4)), 3)), list(make(StackDataset(a=Numbers(3), b=Many(3)), 2))


@case
def tensors(make: Maker) -> object:
    """Rows of tensors."""
    return list(make(PAIRS, 4)), list(make(PAIRS, 4, shuffle=True, generator=seeded()))


@case
def samples_many_at_a_time(make: Maker) -> object:
    """`__getitems__` is preferred, where it is not None."""
    single = Many(5)
    single.__getitems__ = None  # type: ignore[method-assign, assignment]
    return list(make(Many(5), 2)), list(make(single, 2)), list(make(Many(5), batch_size=None))


@case
def subset_of_many_at_a_time(make: Maker) -> object:
    """Through the subset too."""
    return list(make(Subset(Many(9), [5, 1, 8]), 2))


@case
def shuffled(make: Maker) -> object:
    """By torch's own generator, another order each epoch."""
    loader = make(Numbers(), 3, shuffle=True)
    return [list(loader) for _ in range(3)], torch.rand(1)


@case
def shuffled_by_a_generator(make: Maker) -> object:
    """The generator is where it would be."""
    generator = seeded()
    loader = make(Numbers(), 3, shuffle=True, generator=generator)
    return list(loader), list(loader), generator.get_state().sum(), torch.rand(1)


@case
def generator_without_shuffle(make: Maker) -> object:
    """One draw an epoch: the workers' seeds."""
    generator = seeded()
    loader = make(Numbers(), 3, generator=generator)
    return list(loader), list(loader), torch.rand(1, generator=generator), torch.rand(1)


@case
def drawn_between_iter_and_next(make: Maker) -> object:
    """The order is drawn with the first batch."""
    batches = iter(make(Numbers(), 3, shuffle=True))
    return torch.rand(1), list(batches), torch.rand(1)


@case
def datasets_that_draw(make: Maker) -> object:
    """From the caller's generators, without workers."""
    return list(make(Drawn(6), 2)), list(make(Drawn(6), 2, shuffle=True)), random.random(), torch.rand(1)


@case
def samplers_of_torch(make: Maker) -> object:
    """With and without replacement, weights, subsets."""
    weights = [0.1, 0.9, 0.4, 0.7, 3.0, 0.6]
    samplers: list[Any] = [
        RandomSampler(range(6)),
        RandomSampler(range(6), replacement=True, num_samples=40, generator=seeded()),
        RandomSampler(range(6), num_samples=9),
        SubsetRandomSampler([3, 5, 1]),
        SubsetRandomSampler([3, 5, 1], generator=seeded()),
        WeightedRandomSampler(weights, 5),
        WeightedRandomSampler(weights, 5, replacement=False, generator=seeded()),
    ]
    return [(list(make(range(6), 2, sampler=sampler)), len(make(range(6), 2, sampler=sampler))) for sampler in samplers]


@case
def distributed_sampler(make: Maker) -> object:
    """Each rank its share, another each epoch that is told."""
    out = []
    for rank in range(2):
        sampler: DistributedSampler[Any] = DistributedSampler(Numbers(), 2, rank, seed=4)
        loader = make(Numbers(), 3, sampler=sampler)
        out += [len(loader), list(loader), list(loader)]
        sampler.set_epoch(1)
        out.append(list(loader))
    return out


class Halves(Sampler[int]):
    """Give even numbers first, without a length."""

    def __iter__(self) -> Iterator[int]:
        return iter([*range(0, 10, 2), *range(1, 10, 2)])


@case
def sampler_without_length(make: Maker) -> object:
    """The loader has none then."""
    loader = make(Numbers(), 4, sampler=Halves())
    return list(loader), error_of(lambda: len(loader))


@case
def sampler_that_is_a_generator(make: Maker) -> object:
    """It is used up by the first epoch."""
    loader = make(Numbers(), 2, sampler=(number for number in [5, 3, 1]))
    return list(loader), list(loader)


@case
def sampler_of_tensors(make: Maker) -> object:
    """Numbers of any type."""
    return list(make(range(9), 2, sampler=torch.tensor([3, 1, 2]))), list(make(range(9), 2, sampler=np.array([3, 1])))


@case
def batch_sampler(make: Maker) -> object:
    """It alone says what a batch is."""
    loader = make(Squares(), batch_sampler=BatchSampler(SequentialSampler(range(20)), 7, drop_last=True))
    return list(loader), len(loader), loader.batch_size, loader.drop_last, type(loader.sampler)


@case
def batch_sampler_of_lists(make: Maker) -> object:
    """Of any lengths."""
    loader = make(Numbers(), batch_sampler=[[1], [2, 3, 4], (5, 6)])
    return list(loader), list(loader), len(loader)


@case
def batch_sampler_that_uses_one_list(make: Maker) -> object:
    """And fills it anew for each batch."""

    def batches() -> Iterator[list[int]]:
        batch: list[int] = []
        for number in range(6):
            batch.append(number)
            if len(batch) == 3:
                yield batch
                batch.clear()

    return list(make(Numbers(), batch_sampler=batches()))


@case
def sampler_that_raises(make: Maker) -> object:
    """In the middle."""

    def numbers() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("no third")

    batches = iter(make(Numbers(), sampler=numbers()))
    return [next(batches), next(batches), error_of(lambda: next(batches)), error_of(lambda: next(batches))]


@case
def dataset_that_raises(make: Maker) -> object:
    """The batch is lost, the next ones come."""
    batches = iter(make(Raising(ValueError("bad sample")), 2, collate_fn=as_list))
    return [next(batches), error_of(lambda: next(batches)), list(batches)]


@case
def dataset_that_raises_stop_iteration(make: Maker) -> object:
    """It ends the epoch, as an end would."""
    return list(make(Raising(StopIteration), 2)), list(make(Raising(StopIteration), batch_size=None))
