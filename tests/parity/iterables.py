"""Compare loaders over datasets that give samples in turn."""

from __future__ import annotations

import warnings

import torch
from parity.compare import Maker, case, error_of
from parity.data import RaisingStream, Sized, Split, Stream, Uneven
from torch.utils.data import ChainDataset, IterDataPipe, MapDataPipe
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.utils.data.datapipes.map import SequenceWrapper


@case
def batches(make: Maker) -> object:
    """The last one is short, or dropped."""
    return list(make(Stream(), 4)), list(make(Stream(), 4, drop_last=True)), list(make(Stream(), 20, drop_last=True))


@case
def samples(make: Maker) -> object:
    """Without batches."""
    return list(make(Stream(4), batch_size=None))


@case
def empty(make: Maker) -> object:
    """No batch."""
    return list(make(Stream(0), 3)), list(make(Stream(0), batch_size=None))


@case
def no_shuffle(make: Maker) -> object:
    """Said so, it is no error."""
    return list(make(Stream(5), shuffle=False)), list(make(Stream(5), shuffle=None)), list(make(Stream(5), shuffle=0))


@case
def length(make: Maker) -> object:
    """Of the dataset, in batches; an error where it has none."""
    told = [len(make(Sized(10, 10), size, drop_last=drop)) for size, drop in ((3, False), (3, True), (1, False))]
    return told, len(make(Sized(10, 10), batch_size=None)), error_of(lambda: len(make(Stream())))


@case
def more_than_told(make: Maker) -> object:
    """A warning for each batch too many, once the length was asked for."""
    loader = make(Sized(6, 4), 1)
    before = list(loader)
    return before, len(loader), list(loader), list(loader)


@case
def more_than_told_in_batches(make: Maker) -> object:
    """Counted as torch counts."""
    loader = make(Sized(20, 2), 3)
    return len(loader), list(loader)


@case
def more_than_told_by_workers(make: Maker) -> object:
    """The text says what may be the reason."""
    loader = make(Sized(3, 3), 1, num_workers=2)
    return len(loader), list(loader)


@case
def fewer_than_told(make: Maker) -> object:
    """No warning."""
    loader = make(Sized(3, 9), 2)
    return len(loader), list(loader)


@case
def chained(make: Maker) -> object:
    """One behind the other."""
    chain = ChainDataset([Stream(3), Sized(2, 2)])
    return list(make(chain, 2)), list(make(Stream(2) + Stream(3), 2)), error_of(lambda: len(make(chain)))


@case
def chained_sized(make: Maker) -> object:
    """The lengths are added."""
    return len(make(ChainDataset([Sized(3, 3), Sized(4, 4)]), 2))


@case
def doubled_by_workers(make: Maker) -> object:
    """Each gives all, in turn."""
    return list(make(Stream(5), 2, num_workers=2))


@case
def shared_by_workers(make: Maker) -> object:
    """Each gives its own, in turn."""
    return list(make(Split(11), 2, num_workers=2)), list(make(Split(11), 2, num_workers=2, drop_last=True))


@case
def samples_shared_by_workers(make: Maker) -> object:
    """Without batches."""
    return list(make(Split(7), batch_size=None, num_workers=2))


@case
def uneven_workers(make: Maker) -> object:
    """One has nothing."""
    return list(make(Uneven(3), 2, num_workers=2))


@case
def again_with_workers_that_stay(make: Maker) -> object:
    """Each epoch from the start."""
    loader = make(Split(6), 2, num_workers=2, persistent_workers=True)
    return [list(loader) for _ in range(3)]


@case
def one_that_raises(make: Maker) -> object:
    """A generator that raised is at its end."""
    batches = iter(make(RaisingStream(), 2))
    return [next(batches), error_of(lambda: next(batches)), error_of(lambda: next(batches))]


@case
def one_that_raises_in_a_worker(make: Maker) -> object:
    """With the worker's traceback."""
    batches = iter(make(RaisingStream(), 2, num_workers=1))
    return [next(batches), error_of(lambda: next(batches)), error_of(lambda: next(batches))]


@case
def an_iterator_that_is_its_own_dataset(make: Maker) -> object:
    """It is used up by the first epoch."""

    class Once(Stream):
        def __iter__(self) -> Once:
            return self

        def __next__(self) -> int:
            if self.count == 0:
                raise StopIteration
            self.count -= 1
            return self.count

    loader = make(Once(5), 2)
    return list(loader), list(loader)


@case
def datapipes(make: Maker) -> object:
    """In turn and by number, shuffled by torch's settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates them
        pipe: IterDataPipe[int] = IterableWrapper(range(9)).shuffle()
        by_number: MapDataPipe[int] = SequenceWrapper(range(5))
        loader = make(pipe, 2, shuffle=True)
        return (
            list(loader),
            list(loader),
            list(make(pipe, 2, shuffle=False)),
            list(make(by_number, 2)),
            type(loader.dataset),
            len(make(by_number, 2)),
            torch.rand(1),
        )


@case
def datapipes_in_workers(make: Maker) -> object:
    """Cut for the workers where they say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = IterableWrapper(range(12)).shuffle().sharding_filter()
        return list(make(pipe, 2, num_workers=2, shuffle=True)), list(make(SequenceWrapper(range(5)), 2, num_workers=1))
