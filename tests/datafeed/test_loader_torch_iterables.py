"""Check that over an iterable torch Dataset a loader goes on exactly where another stood."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from torch_data import Kept, Lines, Unkept, numbers, state_of

from datafeed import Loader
from datafeed.errors import ConfigError, StateMismatch


def halves(loader: Loader, done: int) -> tuple[dict[str, Any], list[Any]]:
    """Return the state after some batches, and the batches behind them."""
    batches = iter(loader)
    for _ in range(done):
        next(batches)
    return state_of(loader), numbers(batches)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_dataset_that_keeps_a_state_goes_on_from_it(workers: int) -> None:
    """From every position; nothing is read again, so that nothing is said; the epoch behind is whole."""
    whole = numbers(Loader(Kept(), 2, num_workers=workers))
    for done in range(0, len(whole), 1 if workers == 0 else 5):
        state, rest = halves(Loader(Kept(), 2, num_workers=workers), done)
        assert rest == whole[done:]
        again = Loader(Kept(), 2, num_workers=workers)
        again.load_state_dict(state)
        assert state_of(again) == state
        assert numbers(again) == rest
        assert numbers(again) == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_that_keeps_a_state_goes_on_again_and_again(workers: int) -> None:
    """Each loader hands out one batch."""
    got: list[Any] = []
    loader = Loader(Kept(), 2, num_workers=workers)
    whole = numbers(Loader(Kept(), 2, num_workers=workers))
    for _ in range(5):
        got += numbers([next(iter(loader))])
        state = state_of(loader)
        loader = Loader(Kept(), 2, num_workers=workers)
        loader.load_state_dict(state)
    assert got + numbers(loader) == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_without_a_state_is_read_again_and_says_so(workers: int) -> None:
    """One warning, that names the dataset and what it costs."""
    whole = numbers(Loader(Lines(), 2, num_workers=workers))
    for done in (0, 1, 4, len(whole) - 1):
        state, rest = halves(Loader(Lines(), 2, num_workers=workers), done)
        assert rest == whole[done:]
        again = Loader(Lines(), 2, num_workers=workers)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again.load_state_dict(state)
            assert numbers(again) == rest
            assert numbers(again) == whole
        assert [str(one.message).partition("torch_data.")[2].partition(" ")[0] for one in caught] == ["Lines"] * (
            done > 0
        )
        assert not caught or f"the first {done} batches of its epoch are read again" in str(caught[0].message)
        assert not caught or caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore:.*are read again:UserWarning")
@pytest.mark.parametrize("dataset", [Kept, Lines])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_after_the_last_batch_begins_the_next_epoch(dataset: type[Lines], workers: int) -> None:
    """Whether the caller saw the end or not."""
    loader = Loader(dataset(), 2, num_workers=workers)
    whole = numbers(loader)
    ended = state_of(loader)
    assert (ended["epoch"], ended["batches"]) == (1, 0)
    batches = iter(loader)
    for _ in whole:
        next(batches)
    for state in (ended, state_of(loader)):
        again = Loader(dataset(), 2, num_workers=workers)
        again.load_state_dict(state)
        assert numbers(again) == whole


@pytest.mark.filterwarnings("ignore:.*are read again:UserWarning")
def test_workers_that_stay_go_on_from_a_state() -> None:
    """They are started anew."""
    for dataset in (Kept, Lines):
        loader = Loader(dataset(), 2, num_workers=2, persistent_workers=True)
        state, rest = halves(loader, 3)
        loader.load_state_dict(state)
        assert numbers(loader) == rest
        assert numbers(loader) == numbers(Loader(dataset(), 2, num_workers=2))


@pytest.mark.filterwarnings("ignore:.*are read again:UserWarning")
def test_what_workers_draw_is_drawn_again() -> None:
    """Their seeds come from the state."""

    class Drawing(Lines):
        def __iter__(self) -> Any:
            return (torch.rand(1).item() for _ in range(9))

    loader = Loader(Drawing(), 2, num_workers=2)
    torch.manual_seed(1)
    state, rest = halves(loader, 3)
    torch.manual_seed(2)
    again = Loader(Drawing(), 2, num_workers=2)
    again.load_state_dict(state)
    before = torch.get_rng_state()
    assert numbers(again) == rest
    assert torch.equal(torch.get_rng_state(), before)


def test_another_number_of_workers_is_refused() -> None:
    """Each has its own share of the stream."""
    state, _ = halves(Loader(Kept(), 2, num_workers=2), 3)
    with pytest.raises(StateMismatch, match="num_workers is 2 in the state and 1 here"):
        Loader(Kept(), 2, num_workers=1).load_state_dict(state)


def test_batches_out_of_order_need_a_state_of_the_dataset() -> None:
    """Read again, they would come in another order."""
    with pytest.raises(ConfigError, match="needs in_order=True, or a dataset with state_dict"):
        Loader(Lines(), num_workers=2, in_order=False).state_dict()
    loader = Loader(Kept(), 2, num_workers=2, in_order=False)
    got = numbers(itertools.islice(iter(loader), 3))
    batches = iter(loader)
    got = numbers(itertools.islice(batches, 3))
    again = Loader(Kept(), 2, num_workers=2, in_order=False)
    again.load_state_dict(state_of(loader))
    assert sorted(itertools.chain(*got, *numbers(again))) == list(range(23))


def test_a_dataset_that_cannot_tell_its_state_still_gives_batches() -> None:
    """Only who asks is told."""
    loader = Loader(Unkept(), 2, num_workers=1)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match=r"state_dict\(\) failed in a worker: ValueError\('not now'\)"):
        loader.state_dict()
    assert len(list(batches)) == 11


def test_a_dataset_that_ends_early_is_another_one() -> None:
    """What was handed out is not there."""
    state, _ = halves(Loader(Lines(), 2), 9)
    again = Loader(Lines(5), 2)
    with pytest.warns(UserWarning, match="9 batches"):
        again.load_state_dict(state)
    with pytest.raises(StateMismatch, match="9 batches were handed out before, and the dataset gives 3"):
        iter(again)


def test_the_dataset_is_told_the_epoch() -> None:
    """It has no sampler that could be."""
    dataset = Kept()
    Loader(dataset).set_epoch(4)
    assert dataset.epoch == 4


@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_of_hugging_face_go_on_from_their_own_state(workers: int) -> None:
    """From every position: the workers' shards lie apart."""
    from datasets import Dataset

    def made() -> Loader:
        rows = Dataset.from_dict({"x": list(range(23))}).to_iterable_dataset(num_shards=4)
        return Loader(rows, 3, num_workers=workers, collate_fn=lambda samples: [sample["x"] for sample in samples])

    whole = list(made())
    for done in range(len(whole)):
        state, rest = halves(made(), done)
        again = made()
        again.load_state_dict(state)
        assert list(again) == rest == whole[done:]
