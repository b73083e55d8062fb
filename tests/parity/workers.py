"""Compare workers that are forked, torch's default here."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import warnings
from typing import Any

import torch
from parity.compare import Maker, case, error_of
from parity.data import (
    Drawn,
    Informed,
    Numbers,
    Placed,
    Raising,
    Shifted,
    Slow,
    Squares,
    TwoArgumentsError,
    as_list,
    fails_to_begin,
    fails_to_collate,
    places,
    shifts,
)


@case
def batches_in_order(make: Maker) -> object:
    """For one and for three workers."""
    return [list(make(Squares(), 3, num_workers=workers)) for workers in (1, 3)]


@case
def shuffled(make: Maker) -> object:
    """The order is drawn by the caller's process."""
    loader = make(Numbers(), 3, shuffle=True, num_workers=2)
    return list(loader), list(loader), torch.rand(1)


@case
def shuffled_by_a_generator(make: Maker) -> object:
    """And the workers' seeds with it."""
    generator = torch.Generator().manual_seed(3)
    loader = make(Informed(6), 2, shuffle=True, num_workers=2, collate_fn=as_list, generator=generator)
    return list(loader), list(loader), torch.rand(1, generator=generator), torch.rand(1)


@case
def what_workers_draw(make: Maker) -> object:
    """From torch's, Python's and numpy's generators."""
    loader = make(Drawn(8), 2, num_workers=2)
    return list(loader), list(loader)


@case
def what_workers_draw_by_a_generator(make: Maker) -> object:
    """The seeds come from it."""
    return list(make(Drawn(8), 2, num_workers=2, generator=torch.Generator().manual_seed(8)))


@case
def what_workers_that_stay_draw(make: Maker) -> object:
    """They go on from epoch to epoch."""
    loader = make(Drawn(4), 2, num_workers=2, persistent_workers=True)
    return list(loader), list(loader)


@case
def what_workers_know(make: Maker) -> object:
    """Number, seed, dataset; nothing in the caller's process."""
    return list(make(Informed(4), num_workers=2, collate_fn=as_list)), torch.utils.data.get_worker_info()


@case
def what_nobody_knows_without_workers(make: Maker) -> object:
    """There is no worker."""
    return list(make(Informed(2), collate_fn=as_list))


@case
def worker_init(make: Maker) -> object:
    """It is called with the worker's number, and may change the worker's dataset."""
    return list(make(Shifted(4), num_workers=2, worker_init_fn=shifts, collate_fn=as_list))


@case
def worker_init_without_workers(make: Maker) -> object:
    """It is not called."""
    return list(make(Numbers(2), worker_init_fn=fails_to_begin))


@case
def worker_init_that_raises(make: Maker) -> object:
    """The first batch of each worker says so."""
    batches = iter(make(Numbers(4), num_workers=2, worker_init_fn=fails_to_begin))
    errors = [error_of(lambda: next(batches)) for _ in range(2)]
    return [(type(error), str(error).splitlines()[0], str(error).splitlines()[-1]) for error in errors]


def _raised(error: Any) -> Any:
    def compared(make: Maker) -> object:
        batches = iter(make(Raising(error), 2, num_workers=1, collate_fn=as_list))
        found: list[Any] = [next(batches), error_of(lambda: next(batches))]
        return found + list(batches) + [getattr(found[1], "args", None)]

    return compared


ERRORS: dict[str, Any] = {
    "value_error": ValueError("bad sample"),
    "key_error": KeyError("a key"),
    "index_error": IndexError,
    "stop_iteration": StopIteration("early"),
    "memory_error": MemoryError("none left"),
    "os_error": OSError(2, "none"),
    "unicode_error": UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
    "error_of_two_arguments": TwoArgumentsError("a", "b"),
    "stop_async_iteration": StopAsyncIteration("what"),
    "not_implemented_error": NotImplementedError(),
    "chained_error": ValueError("line 1\nline 2"),
}
for name, error in ERRORS.items():
    function = _raised(error)
    function.__module__, function.__name__ = __name__, name
    case(function)


@case
def collate_that_raises(make: Maker) -> object:
    """In the worker, with its traceback."""
    return list(make(Numbers(4), 2, num_workers=1, collate_fn=fails_to_collate))


@case
def in_time(make: Maker) -> object:
    """A batch that comes is no error."""
    return list(make(Slow(4), num_workers=1, timeout=60))


@case
def out_of_order(make: Maker) -> object:
    """What is ready comes first."""
    return list(make(Slow(6), num_workers=2, in_order=False)), list(make(Slow(6), num_workers=2))


@case
def out_of_order_without_workers(make: Maker) -> object:
    """It has no effect."""
    return list(make(Numbers(5), 2, in_order=False))


@case
def that_stay(make: Maker) -> object:
    """The same processes in every epoch."""
    loader = make(Numbers(6), 2, shuffle=True, num_workers=2, persistent_workers=True)
    epochs = [list(loader)]
    before = [worker.pid for worker in loader._iterator._workers]
    epochs += [list(itertools.islice(loader, 1)), list(loader)]
    return epochs, before == [worker.pid for worker in loader._iterator._workers]


@case
def that_stay_though_one_raised(make: Maker) -> object:
    """The next epoch is whole again, but for the same sample."""
    loader = make(Raising(ValueError("bad"), 5), 2, num_workers=2, persistent_workers=True, collate_fn=as_list)
    return [type(error_of(lambda: list(loader))) for _ in range(2)]


@case
def how_many_ahead(make: Maker) -> object:
    """By the factor, and by workers."""
    out = []
    for workers, factor in ((1, None), (2, 3), (1, 1)):
        batches = iter(make(Numbers(), num_workers=workers, prefetch_factor=factor))
        out.append((batches._tasks_outstanding, batches._prefetch_factor, len(batches._workers)))  # type: ignore[attr-defined]
    return out


@case
def processes(make: Maker) -> object:
    """Daemons; gone after the epoch."""
    batches = iter(make(Numbers(), num_workers=2))
    workers = batches._workers  # type: ignore[attr-defined]
    alive = [(worker.daemon, worker.is_alive()) for worker in workers]
    list(batches)
    left = [child for child in multiprocessing.active_children() if child in workers]  # others may end yet
    return alive, [worker.is_alive() for worker in workers], left


@case
def tensors_are_shared(make: Maker) -> object:
    """They lie in shared memory, and may be written to."""
    first = next(iter(make(Squares(), 4, num_workers=1)))
    first["y"][0, 0] = 7.0
    return first, first["y"].is_shared()


@case
def batches_outlive_their_workers(make: Maker) -> object:
    """And the loader."""
    return [batch["y"] for batch in list(make(Squares(), 4, num_workers=2))]


@case
def without_batches(make: Maker) -> object:
    """Samples come one by one."""
    return list(make(Squares(5), batch_size=None, num_workers=2))


@case
def more_workers_than_batches(make: Maker) -> object:
    """Some have nothing to do."""
    return list(make(Numbers(2), 2, num_workers=2)), list(make(Numbers(0), 2, num_workers=2))


@case
def sparse_tensors(make: Maker) -> object:
    """They come through shared memory too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns once in a process
        return list(make([torch.eye(2).to_sparse()] * 3, batch_size=None, num_workers=1))


@case
def where_workers_run(make: Maker) -> object:
    """On the cores that `worker_init_fn` chose."""
    cores = os.sched_getaffinity(0)
    loader = make(Placed(2), num_workers=1, worker_init_fn=places, collate_fn=as_list)
    return list(loader), os.sched_getaffinity(0) == cores


@case
def what_cannot_be_sent(make: Maker) -> object:
    """With fork, the dataset need not be pickled."""

    class Local(Numbers):
        pass

    return list(make(Local(4), 2, num_workers=1, collate_fn=lambda samples: samples))
