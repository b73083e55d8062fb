"""Check that a subset is a dataset to the Loader, and by number."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path

import feeding
import forms
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_order import Ranks, plain_full_order, plain_shares, plain_window_order

from datafeed import Cache, Dataset, Loader
from datafeed.errors import ConfigError, StateMismatch
from datafeed.loader import Shuffle

COUNT = 211
PER_BLOCK = 5
MODES: tuple[Shuffle, ...] = ("window", "full", False)
SHUFFLED = np.random.default_rng(0).permutation(COUNT)[:60]
MADE: dict[str, Callable[[Dataset], Dataset]] = {
    "slice": lambda whole: whole.subset(slice(20, 90)),
    "steps": lambda whole: whole.subset(range(3, 200, 4)),
    "ascending": lambda whole: whole.subset(np.sort(SHUFFLED)),
    "shuffled": lambda whole: whole.subset(SHUFFLED),
    "twice": lambda whole: whole.subset([7, 7, 100, 3, 7, 210, 3]),
    "fraction": lambda whole: whole.subset(0.3, seed=1),
    "extents": lambda whole: whole.split([0.5, 0.3, 0.2], by="extent")[1],
    "part of a part": lambda whole: whole.split([0.7, 0.3], 5)[0].subset(slice(10, None, 2)).split([0.5, 0.5], 5)[1],
    "list of a part": lambda whole: whole.subset(0.5).subset([50, 3, 3, 17, -1]),
}
KINDS = list(MADE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Write a dataset of many small extents."""
    folder = tmp_path_factory.mktemp("whole")
    return Dataset(forms.write(folder, records=COUNT, per_block=PER_BLOCK, shards=4, extent_size=600))


def subset(whole: Dataset, kind: str) -> Dataset:
    """Return one of every kind of subset, made anew."""
    return MADE[kind](whole)


def numbers(dataset: Dataset) -> list[int]:
    """Return the ids of its samples in order."""
    return [int(sample["id"]) for sample in dataset]  # type: ignore[arg-type, call-overload]


def make(dataset: Dataset | str, mode: Shuffle = "window", batch_size: int = 4, **options: object) -> Loader:
    """Make a loader."""
    given_ = {"num_workers": 0, "lanes": 12, "window": "1KB", "columns": ["id"], **options}
    return Loader(dataset, batch_size, mode, **given_)  # type: ignore[arg-type]


def walked(dataset: Dataset, whole: Dataset, mode: Shuffle, epoch: int) -> list[int]:
    """Return the order of an epoch from the plain implementation."""
    chosen = numbers(dataset)
    if mode == "full":
        return [chosen[number] for number in plain_full_order(0, len(chosen), epoch)]
    spec = make(dataset)._feed._spec(12)
    return plain_window_order(spec, whole.layout, epoch, chosen) if mode else chosen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("ranks", "batch_size", "workers"), [(1, 7, 0), (1, 8, 2), (3, 2, 1)])
def test_ranks_get_the_batches_of_the_plain_walk(
    whole: Dataset, kind: str, mode: Shuffle, ranks: int, batch_size: int, workers: int
) -> None:
    """Over two epochs; as many as the length says; each sample as often as it was chosen."""
    dataset = subset(whole, kind)
    how = Ranks(ranks, batch_size, mode is False, drop_last=False, pad=False)
    loaders = [
        make(dataset, mode, batch_size, rank=rank, world_size=ranks, pad=False, num_workers=workers)
        for rank in range(ranks)
    ]
    for epoch in range(2):
        shares = plain_shares(walked(dataset, whole, mode, epoch), 0, how)
        expected = [[[number for number, _ in batch] for batch in batches] for batches in shares]
        assert [feeding.ids(loader) for loader in loaders] == expected
        assert [len(loader) for loader in loaders] == [len(batches) for batches in expected]


@pytest.mark.parametrize("mode", MODES)
@given(
    kind=st.sampled_from(KINDS),
    stretches=st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 9), st.integers(0, 3)), max_size=4),
)
@settings(max_examples=15)
def test_resumed_on_other_ranks_each_comes_as_often_as_chosen(
    whole: Dataset, mode: Shuffle, kind: str, stretches: list[tuple[int, int, int]]
) -> None:
    """Over and over within one epoch, each time with the subset made anew."""
    state, seen = None, []
    for ranks, size, batches in [*stretches, (2, 7, 10**6)]:
        states = []
        for rank in range(ranks):
            loader = make(subset(whole, kind), mode, size, rank=rank, world_size=ranks, mask=True)
            if state is not None:
                loader.load_state_dict(state)
            for batch in itertools.islice(loader, batches):
                seen += batch["id"][batch["_mask"]].tolist()  # type: ignore[index, union-attr]
            states.append(feeding.saved(loader))
        assert states == [states[0]] * ranks
        state = states[0]
        if state["epoch"] == 1:
            break
    assert sorted(seen) == sorted(numbers(subset(whole, kind)))


@pytest.mark.parametrize("mode", MODES)
def test_the_rest_is_the_same_when_saved_after_any_batch(whole: Dataset, mode: Shuffle) -> None:
    """Before the first batch, after each, after the last."""
    dataset = subset(whole, "shuffled")
    epochs = [feeding.ids(loader) for loader in [make(dataset, mode)] * 2]
    for count in range(len(epochs[0]) + 1):
        loader = make(dataset, mode)
        feeding.take(loader, count)
        again = make(subset(whole, "shuffled"), mode)
        again.load_state_dict(feeding.saved(loader))
        assert feeding.saved(again) == feeding.saved(loader)
        assert feeding.ids(again) == (epochs[0][count:] if count < len(epochs[0]) else epochs[1])


def test_a_state_of_another_subset_is_refused(whole: Dataset) -> None:
    """Also of the whole dataset, and of as many other records."""
    state = feeding.saved(make(whole.subset(slice(20)), mode=False))
    others = [whole, whole.subset(slice(21)), whole.subset(slice(1, 21)), whole.subset(range(0, 40, 2))]
    for other in others:
        with pytest.raises(StateMismatch, match=r"dataset is '[0-9a-f]+, subset [0-9a-f]+' in the state and '"):
            make(other, mode=False).load_state_dict(state)
    with pytest.raises(StateMismatch, match=r"in the state and '[0-9a-f]+, subset"):
        make(others[1], mode=False).load_state_dict(feeding.saved(make(whole, mode=False)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_only_blocks_that_hold_its_records_are_read(whole: Dataset, kind: str, mode: Shuffle) -> None:
    """Each once, but where an order returns to it."""
    dataset = subset(whole, kind)
    loader = make(dataset, mode, window="1MB")
    found = feeding.flat(loader)
    blocks = {int(block) for block in np.searchsorted(whole.index.first, found, side="right") - 1}
    assert loader.stats().blocks == len(blocks) < len(whole.index)
    assert dataset.held_nbytes == sum(int(whole.index.raw[block]) for block in blocks)


def test_a_window_is_of_the_bytes_that_it_holds_in_memory(whole: Dataset) -> None:
    """Of a tenth of each block a tenth of the records fill it."""
    few = whole.subset(range(0, COUNT, PER_BLOCK))
    windows = [make(dataset, window="3KB", lanes=1)._feed._spec(1).window for dataset in (whole, few)]
    assert windows[0] // 6 <= windows[1] <= windows[0] // 4
    near = make(whole.subset(slice(100, 150)), window="3KB", lanes=1)._feed._spec(1).window
    assert near > windows[0] * 3 // 4


def test_numbers_in_any_order_are_read_again_where_memory_is_short(whole: Dataset) -> None:
    """As written, they come back to blocks at any time: no more are held than a window has room for."""
    loader = make(whole.subset(SHUFFLED), mode=False, window="1KB", batch_size=2)
    assert feeding.flat(loader) == SHUFFLED.tolist()
    assert loader.stats().blocks > len(set((SHUFFLED // PER_BLOCK).tolist()))


def test_samples_keep_their_random_generators(whole: Dataset) -> None:
    """An augmentation does not change with the subset."""

    def draw(sample: dict[str, object], rng: np.random.Generator) -> dict[str, object]:
        return {"id": sample["id"], "drawn": rng.integers(2**40)}

    drawn = []
    for dataset in (whole, whole.subset(0.2)):
        batches = list(make(dataset, columns=None, transform=draw))
        drawn.append({i: x for b in batches for i, x in zip(b["id"].tolist(), b["drawn"].tolist(), strict=True)})  # type: ignore[union-attr]
    assert drawn[1].items() < drawn[0].items()


@pytest.mark.parametrize("kind", KINDS)
def test_a_pickled_copy_holds_the_same(whole: Dataset, kind: str) -> None:
    """And so does a loader over it, which names the same state."""
    dataset = subset(whole, kind)
    copy = pickle.loads(pickle.dumps(dataset))  # noqa: S301
    assert numbers(copy) == numbers(dataset)
    assert (copy.digest, len(copy)) == (dataset.digest, len(dataset))
    assert copy[1:3]["id"].tolist() == numbers(dataset)[1:3]
    assert feeding.flat(pickle.loads(pickle.dumps(make(dataset)))) == feeding.flat(make(copy))  # noqa: S301


@pytest.mark.parametrize("mode", MODES)
def test_from_far_and_through_memory_it_is_the_same(whole: Dataset, mode: Shuffle) -> None:
    """Of a store that is no disk, and with a cache; both parts of a split share what is opened."""
    far = Dataset(forms.write("memory://subset/far", records=COUNT, per_block=PER_BLOCK, shards=4, extent_size=600))
    kept = Dataset(whole.url, cache=Cache(host="10MB"))
    for dataset in (far, kept):
        parts, near = dataset.split([0.6, 0.4]), whole.split([0.6, 0.4])
        assert parts[0].index is parts[1].index is dataset.index
        assert parts[0].reader is parts[1].reader is dataset.reader
        for part, other in zip(parts, near, strict=True):
            loaders = make(part, mode, num_workers=2), make(other, mode)
            assert [feeding.ids(loaders[0]) for _ in range(2)] == [feeding.ids(loaders[1]) for _ in range(2)]


def test_its_length_and_repr(whole: Dataset) -> None:
    """They tell of how many it was chosen."""
    assert repr(whole.subset(slice(3, 50))) == f"Dataset({whole.url!r}: 47 of 211 records in 4 shards)"
    assert [len(part) for part in whole.split([0.8, 0.1, 0.1])] == [169, 21, 21]
    assert len(whole.subset(slice(100, 900))) == 111
    assert numbers(whole.subset(slice(5, 1, -2))) == [5, 3]


@pytest.mark.parametrize(
    ("which", "options", "error", "named"),
    [
        (slice(9, 9), {}, ConfigError, r"the subset slice\(9, 9, None\) of 211 records holds none"),
        ([], {}, ConfigError, r"of 211 records holds none"),
        (0.0, {}, ConfigError, "a fraction above 0 and up to 1, found 0.0"),
        (1.5, {}, ConfigError, "a fraction above 0 and up to 1, found 1.5"),
        (0.001, {}, ConfigError, "a part of 0.001 of 211 records would hold none: give it more"),
        ([0, 211], {}, IndexError, "record 211 of a dataset of 211"),
        (range(-300, 5), {}, IndexError, "record -300 of a dataset of 211"),
        (5, {}, TypeError, "expected an int, a slice or a sequence of ints, found 5"),
        (np.ones(211, bool), {}, TypeError, "found array"),
        ([1], {"seed": 3}, ConfigError, r"seed= is for a fraction, as in subset\(0.1, seed=...\)"),
        (slice(5), {"by": "record"}, ConfigError, "by= is for a fraction"),
        (0.5, {"by": "block"}, ConfigError, "by must be 'record' or 'extent', found 'block'"),
        (0.5, {"seed": 0.5}, ConfigError, "seed must be an integer, found 0.5"),
    ],
)
def test_what_is_no_subset_is_refused(
    whole: Dataset, which: object, options: dict[str, object], error: type[Exception], named: str
) -> None:
    """With what was found."""
    with pytest.raises(error, match=named):
        whole.subset(which, **options)  # type: ignore[arg-type]


def test_an_empty_dataset_has_no_parts(tmp_path: Path) -> None:
    """It says so."""
    empty = Dataset(forms.write(tmp_path, records=0))
    with pytest.raises(ConfigError, match=r"a part of 0\.5 of 0 records would hold none"):
        empty.split([0.5, 0.5])
