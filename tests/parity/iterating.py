"""Compare how iterators behave."""

from __future__ import annotations

import gc
import itertools
import pickle
import threading
from typing import Any

import torch
from parity.compare import Maker, case, error_of
from parity.data import Items, Numbers, Split, Squares, Stream


@case
def again(make: Maker) -> object:
    """Each iteration is an epoch."""
    loader = make(Squares(), 7)
    return [list(loader) for _ in range(3)]


@case
def two_at_once(make: Maker) -> object:
    """They do not know of each other."""
    loader = make(Numbers(), 3, shuffle=True)
    return list(zip(loader, loader, strict=True))


@case
def two_at_once_with_workers(make: Maker) -> object:
    """Each has its own."""
    loader = make(Numbers(), 6, shuffle=True, num_workers=1)
    return list(zip(loader, loader, strict=True))


@case
def two_at_once_with_workers_that_stay(make: Maker) -> object:
    """They are one: the second starts it again."""
    loader = make(Numbers(), 6, num_workers=1, persistent_workers=True)
    first = iter(loader)
    next(first)
    second = iter(loader)
    return first is second, list(first), error_of(lambda: next(second))


@case
def broken_off(make: Maker) -> object:
    """The next one begins at the start."""
    loader = make(Numbers(), 3, shuffle=True)
    return list(itertools.islice(loader, 2)), list(loader)


@case
def broken_off_with_workers(make: Maker) -> object:
    """And so it does with workers, that stay or not."""
    out = []
    for stay in (False, True):
        loader = make(Numbers(), 3, num_workers=2, persistent_workers=stay)
        out += [list(itertools.islice(loader, 2)), list(loader)]
    return out


@case
def an_iterator(make: Maker) -> object:
    """Its type, its length, itself."""
    loader = make(Numbers(), 6)
    batches = iter(loader)
    return type(batches), len(batches), iter(batches) is batches, isinstance(batches, _base())


@case
def an_iterator_with_workers(make: Maker) -> object:
    """Its type and its length."""
    batches = iter(make(Numbers(), 6, num_workers=1))
    return type(batches), len(batches), iter(batches) is batches, isinstance(batches, _base())


def _base() -> Any:
    return torch.utils.data.dataloader._BaseDataLoaderIter


@case
def an_iterator_is_not_pickled(make: Maker) -> object:
    """Torch's own words."""
    return error_of(lambda: pickle.dumps(iter(make(Numbers()))))


@case
def the_end(make: Maker) -> object:
    """It stays the end."""
    batches = iter(make(Numbers(4), 3))
    return next(batches), next(batches), [error_of(lambda: next(batches)) for _ in range(3)]


@case
def the_end_with_workers(make: Maker) -> object:
    """It stays the end too."""
    batches = iter(make(Numbers(4), 3, num_workers=2))
    return next(batches), next(batches), [error_of(lambda: next(batches)) for _ in range(3)]


@case
def the_end_of_an_iterable_with_workers(make: Maker) -> object:
    """It stays the end too."""
    batches = iter(make(Split(4), 3, num_workers=2))
    return next(batches), next(batches), [error_of(lambda: next(batches)) for _ in range(3)]


@case
def from_a_thread(make: Maker) -> object:
    """With and without workers."""
    out: list[object] = []
    for workers in (0, 1):
        loader = make(Numbers(), 6, num_workers=workers)
        thread = threading.Thread(target=lambda: out.append(list(loader)))  # noqa: B023  (joined below)
        thread.start()
        thread.join()
    return out


@case
def begun_here_ended_in_a_thread(make: Maker) -> object:
    """An iterator may change hands."""
    out: list[object] = []
    batches = iter(make(Numbers(), 6, num_workers=1))
    first = next(batches)
    thread = threading.Thread(target=lambda: out.extend(batches))
    thread.start()
    thread.join()
    return first, out


@case
def profiled(make: Maker) -> object:
    """The name in a profile."""
    loader = make(Numbers(4), 2)
    with torch.profiler.profile() as profile:
        list(loader)
    events = [event for event in profile.key_averages() if "DataLoader" in event.key]
    return [(event.key, event.count) for event in events]


@case
def freed(make: Maker) -> object:
    """A dropped iterator, and a dropped loader, go at once."""
    import weakref

    gc.collect()
    gc.disable()
    try:
        loader = make(Numbers(), 6, num_workers=1)
        batches = iter(loader)
        next(batches)
        kept = weakref.ref(batches)
        del batches
        gone = kept() is None
        held = weakref.ref(loader)
        del loader
        return gone, held() is None
    finally:
        gc.enable()


@case
def enumerated_and_zipped(make: Maker) -> object:
    """As training loops do."""
    return list(enumerate(make(Numbers(4), 2))), list(zip(make(Numbers(9), 2), make(Stream(3), 2), strict=False))


@case
def counted_by_the_iterator(make: Maker) -> object:
    """What frameworks read of it."""
    batches = iter(make(Numbers(), 6))
    next(batches)
    return batches._num_yielded, batches._num_workers, batches._auto_collation, batches._base_seed


@case
def gradients_off(make: Maker) -> object:
    """In a block without gradients, as evaluation does."""
    with torch.no_grad():
        return [batch["y"].requires_grad for batch in make(Squares(), 6)]


@case
def samples_changed_meanwhile(make: Maker) -> object:
    """The dataset is the caller's own object."""
    dataset = Items(1, 2, 3)
    loader = make(dataset, 2)
    batches = iter(loader)
    first = next(batches)
    dataset.samples = (7, 8, 9)
    return first, list(batches), loader.dataset is dataset
