"""Compare what arguments are taken, and which are refused."""

from __future__ import annotations

import inspect
import multiprocessing
from typing import Any

import torch
from parity.compare import Maker, case, error_of
from parity.data import Numbers, Stream, as_list
from torch.utils.data import BatchSampler, SequentialSampler

YES, NO = True, False
OURS = {"num_workers": 0}  # our default, None, stands for torch's over a torch Dataset


@case
def names_kinds_and_defaults(make: Maker) -> object:
    """Every parameter of torch's, in its order; what is ours comes behind and by name alone."""
    theirs = inspect.signature(torch.utils.data.DataLoader).parameters
    found = inspect.signature(make).parameters
    rest = list(found.values())[len(theirs) :]
    return [
        [(p.name, str(p.kind), OURS.get(p.name, p.default)) for p in list(found.values())[: len(theirs)]],
        {str(p.kind) for p in rest} <= {"KEYWORD_ONLY"},
    ]


@case
def positions(make: Maker) -> object:
    """All that torch takes by position."""
    loader = make(
        Numbers(), 4, NO, None, None, 2, as_list, NO, YES, 3.0, print, "fork", torch.Generator().manual_seed(1)
    )
    names = ["batch_size", "num_workers", "pin_memory", "drop_last", "timeout", "worker_init_fn", "collate_fn"]
    return [getattr(loader, name) for name in names], loader.generator.initial_seed(), list(loader)


@case
def one_position_too_many(make: Maker) -> object:
    """The options behind the generator go by name."""
    error = error_of(lambda: make(Numbers(), 1, None, None, None, 0, None, NO, NO, 0, None, None, None, 2))
    return type(error), "positional arguments but" in str(error)


@case
def an_unknown_argument(make: Maker) -> object:
    """It is named."""
    return make(Numbers(), workers_count=3)


@case
def no_dataset(make: Maker) -> object:
    """It has no default."""
    return make(batch_size=3)


@case
def an_argument_twice(make: Maker) -> object:
    """By position and by name."""
    return make(Numbers(), 3, batch_size=3)


@case
def a_dataset_of_none(make: Maker) -> object:
    """It has no length."""
    return list(make(None))


@case
def a_dataset_without_length(make: Maker) -> object:
    """A number is no dataset, but that shows later."""
    loader = make(5)
    return [error_of(lambda: len(loader)), error_of(lambda: list(loader))]


def _refused(name: str, *settings: dict[str, Any], dataset: Any = None) -> None:
    """Add a case for each of some settings that torch refuses."""

    def compared(settings: dict[str, Any]) -> Any:
        return lambda make: list(make(Numbers() if dataset is None else dataset(), **settings))

    for number, setting in enumerate(settings):
        function = compared(setting)
        function.__module__, function.__name__ = __name__, f"{name}_{number}"
        case(function)


_PLAIN = BatchSampler(SequentialSampler(range(20)), 3, drop_last=False)
_refused(
    "numbers_out_of_range",
    {"num_workers": -1},
    {"timeout": -1},
    {"prefetch_factor": 2},
    {"prefetch_factor": -1, "num_workers": 1},
    {"prefetch_factor": 0, "num_workers": 1},
    {"persistent_workers": True},
    {"batch_size": 0},
    {"batch_size": -3},
    {"batch_size": 1.5},
    {"batch_size": True},
    {"batch_size": "4"},
    {"drop_last": 1},
    {"drop_last": "yes"},
    {"timeout": 5},
    {"num_workers": "2"},
    {"num_workers": 0.0, "timeout": None},
)
_refused(
    "pairs",
    {"sampler": [1], "shuffle": True},
    {"batch_sampler": _PLAIN, "batch_size": 2},
    {"batch_sampler": _PLAIN, "batch_size": None},
    {"batch_sampler": _PLAIN, "shuffle": True},
    {"batch_sampler": _PLAIN, "sampler": [1]},
    {"batch_sampler": _PLAIN, "drop_last": True},
    {"batch_size": None, "drop_last": True},
    {"multiprocessing_context": "fork"},
    {"multiprocessing_context": "thread", "num_workers": 1},
    {"multiprocessing_context": 3, "num_workers": 1},
    {"multiprocessing_context": multiprocessing, "num_workers": 1},
)
_refused(
    "over_an_iterable",
    {"shuffle": True},
    {"shuffle": 1},
    {"sampler": [1, 2]},
    {"batch_sampler": [[1], [2]]},
    {"batch_size": None, "drop_last": True},
    {"batch_size": -1},
    dataset=Stream,
)
_refused("over_nothing", {"shuffle": True}, {}, {"drop_last": True}, {"batch_size": None}, dataset=lambda: Numbers(0))
_refused(
    "over_a_sampler",
    {"sampler": 5},
    {"sampler": [50]},
    {"sampler": ["a"]},
    {"batch_sampler": [1, 2]},
    {"batch_sampler": 7},
    {"batch_sampler": [[]]},
    dataset=lambda: [0, 1, 2],
)


@case
def a_collate_function_that_is_none(make: Maker) -> object:
    """It is called when a batch is made."""
    return list(make(Numbers(), collate_fn=3))


@case
def a_generator_that_is_none(make: Maker) -> object:
    """Torch's own words."""
    return list(make(Numbers(), shuffle=True, generator=7))


@case
def a_shuffle_that_is_taken_for_true(make: Maker) -> object:
    """A number is as good over a map."""
    return list(make(Numbers(), shuffle=1)), list(make(Numbers(), shuffle=0))
