"""Compare the other ways to start workers; each start of an interpreter takes seconds, so few of them."""

from __future__ import annotations

import torch
from parity.compare import Maker, case, error_of
from parity.data import Informed, Numbers, Raising, Shifted, as_list, shifts
from torch import multiprocessing


@case
def spawned(make: Maker) -> object:
    """All is pickled on its way: the function, the dataset, the seeds."""
    loader = make(
        Informed(5), 2, shuffle=True, num_workers=1, multiprocessing_context="spawn", worker_init_fn=shifts,
        collate_fn=as_list, generator=torch.Generator().manual_seed(2), persistent_workers=True,
    )  # fmt: skip
    return list(loader), list(loader)


@case
def from_a_fork_server(make: Maker) -> object:
    """As spawned."""
    context = multiprocessing.get_context("forkserver")
    loader = make(Shifted(4), num_workers=1, multiprocessing_context=context, worker_init_fn=shifts, collate_fn=as_list)
    return list(loader), type(loader.multiprocessing_context)


@case
def error_of_one_that_was_spawned(make: Maker) -> object:
    """The same text."""
    return list(make(Raising(KeyError("k")), num_workers=1, multiprocessing_context="spawn"))


@case
def what_cannot_be_pickled(make: Maker) -> object:
    """Torch warns, and the error is Python's."""
    loader = make(Numbers(4), num_workers=1, multiprocessing_context="spawn", collate_fn=lambda samples: samples)
    return type(error_of(lambda: list(loader)))


@case
def by_the_start_method_that_is_set(make: Maker) -> object:
    """The process's default counts."""
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method("forkserver", force=True)
    try:
        batches = iter(make(Numbers(4), 2, num_workers=1))
        return type(batches._workers[0]), list(batches)  # type: ignore[attr-defined]
    finally:
        multiprocessing.set_start_method(before, force=True)
