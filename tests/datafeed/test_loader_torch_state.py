"""Check that over a torch Dataset a loader goes on exactly where another stood."""

from __future__ import annotations

import itertools
import json
import pickle
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler
from torch_data import Shuffled, Walking, numbers, state_of

from datafeed import Loader

COUNT = 17
Options = Callable[[], dict[str, Any]]


def seeded() -> torch.Generator:
    """Return a generator in a known state."""
    return torch.Generator().manual_seed(3)


# Of those marked True, all later epochs follow from the state too.
ORDERS: dict[str, tuple[bool, Options]] = {
    "as_they_lie": (True, dict),
    "dropped": (True, lambda: {"drop_last": True}),
    "shuffled": (False, lambda: {"shuffle": True}),
    "generator": (True, lambda: {"shuffle": True, "generator": seeded()}),
    "replacement": (True, lambda: {"sampler": RandomSampler(range(COUNT), True, 40, seeded())}),  # noqa: FBT003
    "subset": (False, lambda: {"sampler": SubsetRandomSampler(range(2, COUNT))}),
    "weights": (True, lambda: {"sampler": WeightedRandomSampler([1.0] * COUNT, 14, generator=seeded())}),
    "ranks": (True, lambda: {"sampler": DistributedSampler(range(COUNT), 2, 1)}),
    "batches": (True, lambda: {"batch_sampler": [[3, 1], [4], [1, 5, 9], [2, 6]], "batch_size": 1}),
    "batches_drawn": (
        False,
        lambda: {"batch_sampler": BatchSampler(Shuffled(COUNT, "python"), 3, drop_last=False), "batch_size": 1},
    ),
    "list": (True, lambda: {"sampler": [5, 3, 1, 2, 4]}),
    "samples": (True, lambda: {"batch_size": None, "shuffle": True, "generator": seeded()}),
    "stateful": (True, lambda: {"sampler": Walking(COUNT)}),
    **{draw: (False, lambda draw=draw: {"sampler": Shuffled(COUNT, draw)}) for draw in ("python", "numpy", "torch")},
    **{draw: (True, lambda draw=draw: {"sampler": Shuffled(COUNT, draw)}) for draw in ("generator", "state", "own")},
}


def made(options: Options, workers: int = 0) -> Loader:
    """Return a loader over the numbers, three a batch unless the options say otherwise."""
    return Loader(range(COUNT), **{"batch_size": 3, "num_workers": workers, **options()})


def scramble() -> None:
    """Bring the generators that the process shares to other states, as in another process."""
    torch.manual_seed(torch.initial_seed() + 1)
    random.seed(random.random())
    np.random.seed(np.random.randint(1000))  # noqa: NPY002  (what samplers use)


@pytest.mark.parametrize("order", ORDERS)
def test_the_rest_is_the_same_from_every_position(order: str) -> None:
    """In the middle, before the first batch, after the last; through JSON; the second epoch where it can be known."""
    follows, options = ORDERS[order]
    length = len(made(options))
    for done in range(length + 1):
        loader = made(options)
        for _ in itertools.islice(loader, length if done % 2 else 0):
            pass  # an epoch before
        batches = iter(loader)
        begun = [next(batches) for _ in range(done)]
        state = state_of(loader)
        whole = numbers(begun) + numbers(batches)
        later = numbers(loader)
        scramble()
        again = made(options)
        again.load_state_dict(state)
        assert state_of(again) == state
        rest = numbers(again)
        if done == length:  # nothing is left: the next epoch began
            assert not follows or rest == later
            continue
        assert rest == whole[done:]
        assert not follows or numbers(again) == later


@pytest.mark.parametrize("order", ["shuffled", "generator", "ranks", "python", "stateful"])
@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 0), (0, 2)])
def test_workers_ahead_are_not_counted(order: str, before: int, after: int) -> None:
    """Nor need they be as many afterwards."""
    follows, options = ORDERS[order]
    loader = made(options, before)
    batches = iter(loader)
    begun = numbers(itertools.islice(batches, 2))
    state = state_of(loader)
    whole = begun + numbers(batches)
    later = numbers(loader)
    scramble()
    again = made(options, after)
    again.load_state_dict(state)
    assert numbers(again) == whole[2:]
    assert not follows or numbers(again) == later


@pytest.mark.parametrize("order", ORDERS)
def test_a_third_and_a_fourth_loader_go_on_in_one_epoch(order: str) -> None:
    """Each hands out one batch."""
    _, options = ORDERS[order]
    loader = made(options)
    whole: list[Any] | None = None
    got = []
    for _ in range(len(loader)):
        batches = iter(loader)
        got += numbers([next(batches)])
        state = state_of(loader)
        whole = whole or got + numbers(batches)
        scramble()
        loader = made(options)
        loader.load_state_dict(state)
    assert got == whole


def test_the_state_is_the_same_before_and_after_the_iterator_is_made() -> None:
    """Nothing was handed out."""
    loader = made(ORDERS["shuffled"][1])
    batches = iter(loader)
    next(batches)
    state = state_of(loader)
    again = made(ORDERS["shuffled"][1])
    again.load_state_dict(state)
    _ = iter(again)
    assert state_of(again) == state


def test_what_is_drawn_between_iter_and_the_first_batch_changes_no_order() -> None:
    """Torch draws the order with the first batch."""
    loader = made(ORDERS["shuffled"][1])
    batches = iter(loader)
    unbegun = state_of(loader)
    torch.rand(3)
    begun = numbers([next(batches)])
    state = state_of(loader)
    whole = begun + numbers(batches)
    again = made(ORDERS["shuffled"][1])
    again.load_state_dict(state)
    assert numbers(again) == whole[1:]
    assert state["at_first"] is not None
    again.load_state_dict(unbegun)
    assert sorted(itertools.chain(*numbers(again))) == list(range(COUNT))


@pytest.mark.parametrize("order", ["shuffled", "python", "torch", "numpy"])
def test_the_callers_generators_are_left_alone(order: str) -> None:
    """What a checkpoint restored of them stays."""
    loader = made(ORDERS[order][1])
    next(iter(loader))
    state = state_of(loader)
    scramble()
    again = made(ORDERS[order][1])
    again.load_state_dict(state)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    list(again)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_batches_out_of_order_all_come() -> None:
    """Those that came are not those with the lowest numbers."""

    class Late(list[int]):
        def __getitem__(self, number: Any) -> Any:
            time.sleep(0.3 if number < 3 else 0)
            return number

    def out_of_order() -> Loader:
        return Loader(Late(range(COUNT)), 3, num_workers=2, in_order=False)

    loader = out_of_order()
    batches = iter(loader)
    got = numbers(itertools.islice(batches, 2))
    state = state_of(loader)
    assert 0 in state["missing"]
    again = out_of_order()
    again.load_state_dict(state)
    assert state_of(again) == state
    assert sorted(itertools.chain(*got, *numbers(again))) == list(range(COUNT))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_that_failed_comes_again(workers: int) -> None:
    """It was not handed out."""

    class Once(list[int]):
        sound = False

        def __getitem__(self, number: Any) -> Any:
            if number == 4 and not self.sound:
                raise OSError("for now")
            return number

    loader = Loader(Once(range(COUNT)), 3, num_workers=workers)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1, 2]
    with pytest.raises(OSError, match="for now"):
        next(batches)
    assert state_of(loader)["batches"] == 1
    assert next(batches).tolist() == [6, 7, 8]
    state = state_of(loader)
    Once.sound = True
    again = Loader(Once(range(COUNT)), 3, num_workers=workers)
    again.load_state_dict(state)
    assert numbers(again) == [[3, 4, 5], [9, 10, 11], [12, 13, 14], [15, 16]]


def test_workers_that_stay_go_on_too() -> None:
    """A state is loaded while they live."""
    options = {"num_workers": 2, "persistent_workers": True, "shuffle": True, "generator": seeded()}
    loader = Loader(range(COUNT), 3, **options)  # type: ignore[arg-type]
    whole = numbers(loader)
    batches = iter(loader)
    second = numbers(itertools.islice(batches, 2))
    state = state_of(loader)
    second += numbers(batches)
    assert second != whole
    loader.load_state_dict(state)
    assert numbers(loader) == second[2:]


def test_two_iterators_at_once_the_newest_counts() -> None:
    """The older one goes on uncounted."""
    loader = made(dict)
    first = iter(loader)
    next(first)
    next(iter(loader))
    assert (state_of(loader)["epoch"], state_of(loader)["batches"]) == (1, 1)
    next(first)
    assert state_of(loader)["batches"] == 1


def test_a_pickled_loader_keeps_what_was_loaded() -> None:
    """It is built in one process and used in another."""
    loader = made(ORDERS["generator"][1])
    batches = iter(loader)
    next(batches)
    again = made(ORDERS["generator"][1])
    again.load_state_dict(state_of(loader))
    assert numbers(pickle.loads(pickle.dumps(again))) == numbers(batches)  # noqa: S301


def test_a_state_is_a_few_kilobytes() -> None:
    """One generator is 5 KB of numbers."""
    loader = Loader(range(100_000), 10, shuffle=True)
    next(iter(loader))
    assert len(json.dumps(loader.state_dict())) < 5000
