"""Compare what a loader is: its attributes, its copies, what may be set."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import torch
from parity.compare import Maker, case, error_of
from parity.data import Numbers, Squares, Stream, as_list
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

PUBLIC = [
    "batch_size", "num_workers", "pin_memory", "drop_last", "timeout", "prefetch_factor", "persistent_workers",
    "in_order", "pin_memory_device", "worker_init_fn", "multiprocessing_context", "generator", "collate_fn",
]  # fmt: skip


def attributes(loader: Any) -> object:
    """Return what frameworks read."""
    return (
        [(name, getattr(loader, name)) for name in PUBLIC],
        [type(loader.sampler), type(loader.batch_sampler), type(loader.dataset)],
        [loader._auto_collation, type(loader._index_sampler), loader._dataset_kind, loader._iterator],
        isinstance(loader, DataLoader),
    )


@case
def attributes_by_default(make: Maker) -> object:
    """Of a map and of an iterable."""
    return attributes(make(Numbers())), attributes(make(Stream()))


@case
def attributes_with_workers(make: Maker) -> object:
    """What is filled in."""
    return [
        attributes(make(Numbers(), num_workers=2)),
        attributes(make(Numbers(), num_workers=1, prefetch_factor=5, persistent_workers=True, timeout=4.5)),
        attributes(make(Numbers(), num_workers=1, in_order=False, worker_init_fn=print)),
    ]


@case
def attributes_by_batching(make: Maker) -> object:
    """Shuffled, by a batch sampler, without batches."""
    batches = BatchSampler(RandomSampler(range(5)), 2, drop_last=True)
    return [
        attributes(make(Numbers(), 4, shuffle=True, drop_last=True)),
        attributes(make(Numbers(), batch_sampler=batches)),
        attributes(make(Numbers(), batch_size=None)),
        attributes(make(Numbers(), sampler=[1, 2], collate_fn=as_list)),
    ]


@case
def samplers_are_the_callers(make: Maker) -> object:
    """The very objects."""
    sampler, generator = [1, 2], torch.Generator()
    batches = [[1], [2]]
    shuffling = make(Numbers(), shuffle=True, generator=generator)
    return [
        make(Numbers(), sampler=sampler).sampler is sampler,
        make(Numbers(), sampler=sampler).batch_sampler.sampler is sampler,
        make(Numbers(), batch_sampler=batches).batch_sampler is batches,
        shuffling.generator is generator,
        shuffling.sampler.generator is generator,
    ]


@case
def names_of_attributes(make: Maker) -> object:
    """All of torch's are there; ours is one more."""
    return sorted(set(vars(make(Numbers()))) - {"device", "_over_torch"})


@case
def what_may_not_be_set(make: Maker) -> object:
    """Six attributes."""
    loader = make(Numbers())
    names = ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
    return [error_of(lambda name=name: setattr(loader, name, 1)) for name in names], list(loader)  # type: ignore[misc]


@case
def what_may_be_set(make: Maker) -> object:
    """And has its effect."""
    loader = make(Numbers(), 3)
    loader.collate_fn = as_list
    loader.anything = 5
    first = list(loader)
    loader.num_workers, loader.prefetch_factor, loader.timeout = 1, 2, 60
    return first, list(loader), loader.anything, attributes(loader)


@case
def context_set_afterwards(make: Maker) -> object:
    """It is checked as at first."""
    loader = make(Numbers(), num_workers=1)
    errors = [error_of(lambda value=value: setattr(loader, "multiprocessing_context", value)) for value in ("no", 3)]  # type: ignore[misc]
    loader.multiprocessing_context = "fork"
    kept = type(loader.multiprocessing_context)
    loader.multiprocessing_context = None
    none = error_of(lambda: setattr(make(Numbers()), "multiprocessing_context", "fork"))
    return errors, kept, loader.multiprocessing_context, none


@case
def contexts(make: Maker) -> object:
    """Names and objects, torch's and Python's."""
    given = ["fork", "spawn", "forkserver", multiprocessing.get_context("fork"), torch.multiprocessing.get_context()]
    return [type(make(Numbers(), num_workers=1, multiprocessing_context=one).multiprocessing_context) for one in given]


@case
def more_workers_than_cores(make: Maker) -> object:
    """A warning when it is made, none for no workers."""
    loader = make(Numbers(), num_workers=1000)
    make(Numbers()).check_worker_number_rationality()
    return loader.check_worker_number_rationality()


@case
def more_workers_than_cores_when_iterated(make: Maker) -> object:
    """And a warning when they are started."""
    loader = make(Numbers(), num_workers=1)
    loader.num_workers, loader.prefetch_factor = 5, 2
    return list(loader)


@case
def pickled(make: Maker) -> object:
    """The copy gives what the loader gives."""
    loader = make(Squares(), 6, shuffle=True, generator=torch.Generator().manual_seed(5))
    again = pickle.loads(pickle.dumps(loader))  # noqa: S301
    return list(loader), list(again), attributes(again)


@case
def pickled_in_the_middle(make: Maker) -> object:
    """The copy begins at the start."""
    loader = make(Numbers(), 6)
    batches = iter(loader)
    next(batches)
    return list(pickle.loads(pickle.dumps(loader))), list(batches)  # noqa: S301


@case
def copied(make: Maker) -> object:
    """Shallow and deep."""
    loader = make(Numbers(), 6, shuffle=True)
    shallow, deep = copy.copy(loader), copy.deepcopy(loader)
    return list(shallow), list(deep), shallow.dataset is loader.dataset, deep.dataset is loader.dataset


@case
def what_cannot_be_pickled(make: Maker) -> object:
    """A function without a name."""
    error = error_of(lambda: pickle.dumps(make(Numbers(), collate_fn=lambda samples: samples)))
    return type(error)


@case
def pickled_with_workers_that_stay(make: Maker) -> object:
    """Iterators cannot be pickled."""
    loader = make(Numbers(), num_workers=1, persistent_workers=True)
    before = len(pickle.dumps(loader)) > 0
    next(iter(loader))
    return before, error_of(lambda: pickle.dumps(loader))


@case
def subscripted(make: Maker) -> object:
    """As a type."""
    return make[int].__args__, len(make[int](Numbers()))  # type: ignore[index]


@case
def derived(make: Maker) -> object:
    """Classes of the caller's."""

    class Twice(make):  # type: ignore[misc, valid-type]
        def __iter__(self) -> Any:
            yield from super().__iter__()
            yield from super().__iter__()

    return list(Twice(Numbers(3), 2)), len(Twice(Numbers(3), 2))


@case
def truth(make: Maker) -> object:
    """A loader without batches is false."""
    return bool(make(Numbers())), bool(make(Numbers(0))), error_of(lambda: bool(make(Stream())))


@case
def items_of_a_loader(make: Maker) -> object:
    """It has none, nor is it an iterator."""
    return error_of(lambda: make(Numbers())[0]), error_of(lambda: next(make(Numbers())))
