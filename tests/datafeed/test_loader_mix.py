"""Check that a mix of datasets is fed exactly, to any number of workers and ranks, and goes on where it stopped."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import feeding
import mixing
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixing import APART, MODES, make
from plain_order import Ranks, plain_shares

from datafeed import Cache, Dataset, Loader, Mix
from datafeed.errors import ConfigError, StateMismatch
from datafeed.loader import Shuffle
from datafeed.mix import Stop
from datafeed.schema import Schema, stored

SIZES = (211, 90, 17)
STOPS: tuple[Stop, ...] = ("first", "longest", 50, 330)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write three datasets."""
    folder = tmp_path_factory.mktemp("mix")
    return [mixing.write(folder / str(number), number, size) for number, size in enumerate(SIZES)]


@pytest.fixture(scope="module")
def shares(urls: list[str]) -> mixing.Sources:
    """Say how much of each there is in the mix."""
    return dict(zip(urls, (0.6, 0.3, 0.1), strict=True))


def owned(ids: list[int]) -> list[int]:
    """Return how many samples come from each dataset."""
    return [sum(one // APART == number for one in ids) for number in range(3)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stop", STOPS)
def test_ranks_get_the_batches_of_the_plain_walk(shares: mixing.Sources, mode: Shuffle, stop: Stop) -> None:
    """Epoch after epoch, on any number of ranks and workers."""
    for ranks, workers in ((1, 2), (4, 0)):
        loaders = [
            make(shares, mode, 8, stop=stop, rank=rank, world_size=ranks, pad=False, num_workers=workers)
            for rank in range(ranks)
        ]
        for epoch in range(2):
            order = mixing.walked(loaders[0], epoch)
            positions = plain_shares(list(range(len(order))), 0, Ranks(ranks, 8, mode is False, pad=False))
            expected = [[[order[at] for at, _ in batch] for batch in batches] for batches in positions]
            assert [feeding.ids(loader) for loader in loaders] == expected
            assert [len(loader) for loader in loaders] == [len(batches) for batches in expected]


@pytest.mark.parametrize("mode", MODES)
@given(
    stop=st.sampled_from(STOPS),
    stretches=st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 9), st.integers(0, 3)), max_size=3),
)
@settings(max_examples=6, deadline=None)
def test_resumed_on_other_ranks_each_sample_of_the_epoch_comes_once(
    shares: mixing.Sources, mode: Shuffle, stop: Stop, stretches: list[tuple[int, int, int]]
) -> None:
    """Over and over within the second epoch."""
    first = make(shares, mode, stop=stop)
    feeding.flat(first)
    state, seen = feeding.saved(first), []
    for ranks, size, batches in [*stretches, (2, 7, 10**6)]:
        states = []
        for rank in range(ranks):
            loader = make(shares, mode, size, stop=stop, rank=rank, world_size=ranks, mask=True)
            loader.load_state_dict(state)
            assert feeding.saved(loader) == state
            for batch in itertools.islice(loader, batches):
                seen += batch["id"][batch["_mask"]].tolist()  # type: ignore[index, union-attr]
            states.append(feeding.saved(loader))
        assert states == [states[0]] * ranks
        state = states[0]
        if state["epoch"] == 2:
            break
    assert sorted(seen) == sorted(mixing.walked(first, 1))


@pytest.mark.parametrize("mode", MODES)
def test_the_rest_is_the_same_when_saved_after_any_batch(shares: mixing.Sources, mode: Shuffle) -> None:
    """Before the first batch, after each, after the last."""
    twice = make(shares, mode, stop=60)
    epochs = [feeding.ids(twice), feeding.ids(twice)]
    for count in range(len(epochs[0]) + 1):
        loader, again = make(shares, mode, stop=60), make(shares, mode, stop=60)
        feeding.take(loader, count)
        again.load_state_dict(feeding.saved(loader))
        assert feeding.ids(again) == (epochs[0][count:] if count < len(epochs[0]) else epochs[1])


@pytest.mark.parametrize("mode", MODES)
def test_an_epoch_ends_where_stop_says(shares: mixing.Sources, mode: Shuffle) -> None:
    """With exact counts; a dataset gives all of its samples before any of them again, through all epochs."""
    for stop, expected in (("first", [106, 53, 17]), ("longest", [211, 105, 35]), (500, [300, 150, 50])):
        loader = make(shares, mode, stop=stop)
        epochs = [feeding.flat(loader) for _ in range(3)]
        found = [owned(ids) for ids in epochs]
        assert found == [found[0]] * 3
        assert np.abs(np.subtract(found[0], expected)).max() <= 1
        assert found[0][2] == 17 if stop == "first" else found[0][0] == 211 or stop == 500
        for number, size in enumerate(SIZES):
            own = [one for ids in epochs for one in ids if one // APART == number]
            for begin in range(0, len(own) - size + 1, size):
                assert len(set(own[begin : begin + size])) == size


@pytest.mark.parametrize("mode", MODES)
def test_with_their_sizes_as_weights_every_sample_comes_once(urls: list[str], mode: Shuffle) -> None:
    """However the epoch ends: then all end together."""
    everything = [number * APART + row for number, size in enumerate(SIZES) for row in range(size)]
    for stop in ("first", "longest"):
        loader = make(dict(zip(urls, SIZES, strict=True)), mode, stop=stop)  # type: ignore[arg-type]  # one of Stop
        for _ in range(2):
            assert sorted(feeding.flat(loader)) == everything


@pytest.mark.parametrize("mode", MODES)
def test_batches_have_the_proportions(urls: list[str], mode: Shuffle) -> None:
    """Each of them, to a few samples; on four ranks as well."""
    for ranks in (1, 4):
        for rank in range(ranks):
            loader = make({urls[0]: 3, urls[1]: 1}, mode, 20, stop=480, rank=rank, world_size=ranks, drop_last=True)
            assert all(11 <= owned(ids)[0] <= 19 for ids in feeding.ids(loader))


@pytest.mark.parametrize("mode", MODES)
def test_runs_as_long_as_global_batches_make_batches_of_one_dataset(shares: mixing.Sources, mode: Shuffle) -> None:
    """The same one on every rank, each in its turn; samples, passes and states are as exact as ever."""
    assert all(len({one // APART for one in ids}) == 1 for ids in feeding.ids(make(shares, mode, 24, run=24, stop=480)))
    loaders = [make(shares, mode, 6, run=24, stop=490, rank=rank, world_size=4, pad=False) for rank in range(4)]
    for epoch in range(2):
        order = mixing.walked(loaders[0], epoch)
        positions = plain_shares(list(range(490)), 0, Ranks(4, 6, mode is False, pad=False))
        expected = [[[order[at] for at, _ in batch] for batch in batches] for batches in positions]
        found = [feeding.ids(loader) for loader in loaders]
        assert found == expected
        for step in zip(*found, strict=False):
            assert len({one // APART for ids in step for one in ids}) == 1
    first = make(shares, mode, 6, run=24, stop=490)
    feeding.take(first, 7)
    again = make(shares, mode, 5, run=24, stop=490, num_workers=2)
    again.load_state_dict(feeding.saved(first))
    assert feeding.flat(again) == mixing.walked(first, 0)[42:]


def test_lanes_of_runs_divide_them(shares: mixing.Sources) -> None:
    """They are chosen so, and others are refused."""
    for run, ranks, lanes in ((256, 1, 64), (256, 8, 64), (24, 2, 24), (96, 1, 48), (7, 7, 7)):
        loader = make(shares, run=run, stop=6000, lanes=None, rank=0, world_size=ranks)
        assert loader.state_dict()["lanes"] == lanes
    with pytest.raises(ValueError, match="run=24 of this mix needs lanes= that divide it, found 9"):
        iter(make(shares, run=24, lanes=9, stop=480))
    with pytest.raises(ValueError, match="run=7 of the mix cannot be shared out among 2 ranks"):
        iter(make(shares, run=7, lanes=None, stop=480, rank=0, world_size=2))
    assert len(feeding.flat(make(shares, mode=False, run=7, lanes=None, stop=480, rank=0, world_size=2))) == 240


@pytest.mark.parametrize("mode", MODES)
def test_parts_of_datasets_mix(urls: list[str], mode: Shuffle) -> None:
    """Slices, lists in any order, fractions, one of few blocks passed over often; one dataset may be there twice."""
    one, two = Dataset(urls[0]).split([0.7, 0.3])
    few = Dataset(urls[1]).subset([70, 3, 3, 12])
    sources: mixing.Sources = {one: 1, two: 1, few: 1, Dataset(urls[2]).subset(slice(2, 9)): 1}
    for workers in (0, 2):
        loader = make(sources, mode, stop=480, num_workers=workers)
        found = feeding.flat(loader) + feeding.flat(loader)
        parts = [[int(sample["id"]) for sample in dataset] for dataset in sources]  # type: ignore[call-overload, union-attr]
        assert sorted(found) != found
        for part in parts:
            own = [one for one in found if one in part]
            assert len(own) == 240
            for begin in range(0, len(own) - len(part) + 1, len(part)):
                assert sorted(own[begin : begin + len(part)]) == sorted(part)
            if mode is False:
                assert own == list(itertools.islice(itertools.cycle(part), 240))


@pytest.mark.parametrize("mode", MODES)
def test_from_far_and_through_caches_it_is_the_same(
    shares: mixing.Sources, urls: list[str], mode: Shuffle, tmp_path: Path
) -> None:
    """Of stores that are no disk, fetched ahead of the run, and with tiers that the datasets share."""
    far = [mixing.write(f"memory://mix/far{number}", number, size) for number, size in enumerate(SIZES)]
    expected = make(shares, mode, stop=400)
    epochs = [feeding.ids(expected) for _ in range(2)]
    kept = Cache(host="1MB", nvme=(tmp_path, "10MB"))
    mixed = {Dataset(far[0]): 0.6, urls[1]: 0.3, far[2]: 0.1}
    for loader in (
        make(dict(zip(far, shares.values(), strict=True)), mode, stop=400, num_workers=2),
        make(dict(zip(far, shares.values(), strict=True)), mode, stop=400, num_workers=2, cache=kept),
        make(mixed, mode, stop=400, num_workers=1),
    ):
        # Digests, and so orders, are those of the near ones: the files are the same.
        assert [feeding.ids(loader) for _ in range(2)] == epochs
        tiers = loader.stats().tiers
        assert tiers[-1].name == "store"
        assert len({tier.name for tier in tiers}) == len(tiers)
        if loader._feed.dataset.datasets[2].cache is not None:  # type: ignore[union-attr]
            assert tiers[0].blocks > 0


def test_a_device_does_not_hold_a_mix(urls: list[str]) -> None:
    """Its samples are numbered by dataset; it is said before an epoch begins."""
    with pytest.raises(ConfigError, match="vram= keeps the samples of one dataset, not those of a Mix"):
        Loader(Mix(dict.fromkeys(urls, 1)), 8, device="cpu", cache=Cache(vram="1MB"))


def test_memory_holds_a_mix_of_one_schema(urls: list[str], tmp_path: Path) -> None:
    """Of others it is refused before an epoch begins: they are packed in other ways."""
    other = mixing.write(tmp_path / "other", 4, 20, Schema([stored("id", "int64"), stored("more", "int64")]))
    with pytest.raises(ConfigError, match=r"host= keeps records packed by one schema, and .* leave host= out"):
        Loader(Mix({urls[0]: 1, other: 1}), 8, columns=["id"], cache=Cache(host="1MB"))


def test_a_state_of_another_mix_is_refused(shares: mixing.Sources, urls: list[str]) -> None:
    """Of other weights, another end, another seed, other datasets, or none."""
    state = feeding.saved(make(shares, stop=100))
    assert len(str(state)) < 1000
    others: list[Loader] = [
        make({**shares, urls[0]: 0.7}, stop=100),
        make(shares, stop=101),
        Loader(Mix(shares, seed=4, stop=100), 4, "window", seed=5, lanes=12, window="1KB"),
        make({**shares, Dataset(urls[2]).subset(slice(9)): 0.1}, stop=100),
        make(dict(reversed(shares.items())), stop=100),
    ]
    for other in others:
        with pytest.raises(StateMismatch, match=r"dataset is 'mix with seed 3 of 60 \(3/5\) of [0-9a-f]{64}"):
            other.load_state_dict(state)
    with pytest.raises(StateMismatch, match="dataset is "):
        make(shares, stop=100).load_state_dict({**state, "dataset": Dataset(urls[0]).digest})


def test_lanes_come_with_the_state_and_must_fit_the_ranks(shares: mixing.Sources) -> None:
    """In both shuffled orders."""
    for mode in ("window", "full"):
        state = feeding.saved(make(shares, mode, lanes=6))  # type: ignore[arg-type]  # one of Shuffle
        again = make(shares, mode, lanes=None)  # type: ignore[arg-type]  # one of Shuffle
        again.load_state_dict(state)
        assert feeding.saved(again)["lanes"] == 6
        with pytest.raises(ValueError, match="lanes=6 cannot be shared out among 4 ranks"):
            make(shares, mode, lanes=None, rank=0, world_size=4).load_state_dict(state)  # type: ignore[arg-type]


def test_a_pickled_loader_goes_on(shares: mixing.Sources) -> None:
    """Where it stood."""
    loader = make(shares)
    feeding.take(loader, 3)
    copy = pickle.loads(pickle.dumps(loader))  # noqa: S301
    assert feeding.ids(copy) == feeding.ids(make(shares))[3:]
