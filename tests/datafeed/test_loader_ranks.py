"""Check that ranks share every epoch, for any number of them."""

from __future__ import annotations

import itertools
from pathlib import Path

import feeding
import forms
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_order import Ranks, plain_full_order, plain_shares, plain_window_order

from datafeed import Loader
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError, StateMismatch
from datafeed.loader import Shuffle

COUNT = 211
MODES: tuple[Shuffle, ...] = ("window", "full", False)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of many small extents."""
    return forms.write(tmp_path_factory.mktemp("small"), records=COUNT, per_block=5, shards=4, extent_size=600)


def make(url: str, rank: int, ranks: int, mode: Shuffle = "window", batch_size: int = 4, **options: object) -> Loader:
    """Make the loader of one rank."""
    given_ = {"num_workers": 0, "lanes": 24, "window": "3KB", "columns": ["id"], **options}
    return Loader(url, batch_size, mode, rank=rank, world_size=ranks, **given_)  # type: ignore[arg-type]


def walked(url: str, mode: Shuffle, epoch: int) -> list[int]:
    """Return the order of an epoch from the plain implementation."""
    dataset = Dataset(url)
    if mode == "full":
        return plain_full_order(0, COUNT, epoch)
    spec = make(url, 0, 1)._feed._spec(24)
    return plain_window_order(spec, dataset.layout, epoch) if mode else list(range(COUNT))


def marked(loader: Loader) -> list[list[tuple[int, bool]]]:
    """Return the ids of each batch, each with whether it is no repeat."""
    out = []
    for batch in loader:
        ids = batch["id"].tolist()  # type: ignore[union-attr]
        mask = batch["_mask"].tolist() if "_mask" in batch else [True] * len(ids)  # type: ignore[union-attr]
        out.append(list(zip(ids, mask, strict=True)))
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("drop_last", "pad"), [(False, True), (False, False), (True, True)])
@pytest.mark.parametrize(
    ("ranks", "batch_size", "workers"), [(1, 10, 0), (2, 5, 2), (4, 16, 0), (8, 3, 1), (3, 100, 0)]
)
def test_ranks_get_the_batches_of_the_plain_walk(
    url: str, mode: Shuffle, ranks: int, batch_size: int, workers: int, *, drop_last: bool, pad: bool
) -> None:
    """In two epochs: every sample once, repeats marked, as many batches as the length says."""
    how = Ranks(ranks, batch_size, mode is False, drop_last, pad)
    loaders = [
        make(url, rank, ranks, mode, batch_size, drop_last=drop_last, pad=pad, num_workers=workers)
        for rank in range(ranks)
    ]
    for epoch in range(2):
        expected = plain_shares(walked(url, mode, epoch), 0, how)
        assert [marked(loader) for loader in loaders] == expected
        assert [len(loader) for loader in loaders] == [len(batches) for batches in expected]
    assert len({str(loader.state_dict()) for loader in loaders}) == 1


@pytest.mark.parametrize("mode", MODES)
def test_the_global_batches_are_the_same_for_equal_world_times_batch_size(url: str, mode: Shuffle) -> None:
    """Each is the same run of the order."""

    def batches(ranks: int, size: int) -> list[list[int]]:
        parts = [marked(make(url, rank, ranks, mode, size)) for rank in range(ranks)]
        return [
            sorted(number for batch in together for number, real in batch if real)
            for together in zip(*parts, strict=True)
        ]

    assert batches(1, 24) == batches(2, 12) == batches(4, 6) == batches(8, 3)


@pytest.mark.parametrize("mode", MODES)
@given(
    stretches=st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 9), st.integers(0, 4), st.sampled_from([0, 1, 3])),
        max_size=5,
    )
)
@settings(max_examples=12)
def test_f70_resumed_on_other_ranks_every_sample_comes_exactly_once(
    url: str, mode: Shuffle, stretches: list[tuple[int, int, int, int]]
) -> None:
    """Over and over within one epoch: other ranks, batches and threads each time; the states of all ranks are equal."""
    state, position, seen = None, 0, []
    order = walked(url, mode, 0)
    for ranks, size, batches, workers in [*stretches, (2, 7, 10**6, 1)]:
        states = []
        expected = plain_shares(order, position, Ranks(ranks, size, mode is False))
        for rank in range(ranks):
            loader = make(url, rank, ranks, mode, size, num_workers=workers, lanes=None if state else 24)
            if state is not None:
                loader.load_state_dict(state)
                assert feeding.saved(loader) == state
            found = marked(itertools.islice(loader, batches))  # type: ignore[arg-type]
            assert found == expected[rank][:batches]
            seen += [number for batch in found for number, real in batch if real]
            states.append(feeding.saved(loader))
        assert states == [states[0]] * ranks
        state, position = states[0], int(str(states[0]["position"]))
        if state["epoch"] == 1:
            break
    assert sorted(seen) == list(range(COUNT))
    assert (state["epoch"], position) == (1, 0)


def test_a_state_brings_its_lanes_with_it(url: str) -> None:
    """Where none are given; and they stay for the epochs after."""
    first = make(url, 0, 2, lanes=24)
    feeding.take(first, 2)
    state = feeding.saved(first)
    again = make(url, 0, 1, lanes=None, batch_size=8)
    again.load_state_dict(state)
    rest = feeding.flat(again)
    assert sorted(rest) == sorted(walked(url, "window", 0)[16:])
    assert again.state_dict()["lanes"] == 24


def test_f70_a_state_whose_lanes_do_not_fit_the_ranks_is_refused(url: str) -> None:
    """With the numbers of ranks that do; what the loader was about to do stays."""
    state = feeding.saved(make(url, 0, 2, lanes=24))
    loader = make(url, 0, 5, lanes=None)
    with pytest.raises(ConfigError, match=r"lanes=24 cannot be shared out among 5 ranks: .*1, 2, 3, 4, 6, 8, 12, 24"):
        loader.load_state_dict({**state, "epoch": 3})
    assert (loader.state_dict()["lanes"], loader.state_dict()["epoch"]) == (50, 0)
    with pytest.raises(ConfigError, match="lanes=24 cannot be shared out among 5 ranks"):
        iter(make(url, 0, 5, lanes=24))
    with pytest.raises(StateMismatch, match="mode is 'window' in the state and 'full' here"):
        make(url, 0, 2, "full").load_state_dict(state)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("records", [0, 1, 3, 9])
def test_f59_fewer_samples_than_ranks_times_batch(tmp_path: Path, mode: Shuffle, records: int) -> None:
    """All ranks get as many batches, of as many samples; none waits for another in a collective."""
    url = forms.write(tmp_path, records=records, per_block=2, extent_size=1)
    found = [marked(make(url, rank, 4, mode, 8)) for rank in range(4)]
    assert {tuple(map(len, batches)) for batches in found} == {(-(-records // 4),) if records else ()}
    seen = [number for batches in found for batch in batches for number, real in batch if real]
    assert sorted(seen) == list(range(records))
    dropped = [make(url, rank, 4, mode, 8, drop_last=True) for rank in range(4)]
    assert [marked(loader) for loader in dropped] == [[]] * 4
    assert [loader.state_dict()["epoch"] for loader in dropped] == [1] * 4


def test_replicas_see_the_same_batches(url: str) -> None:
    """Ranks 0 and 1 of four, in twos."""
    found = [marked(make(url, rank, 4, replicas=2)) for rank in range(4)]
    assert found[0] == found[1] != found[2] == found[3]
    assert found[::2] == [marked(make(url, rank, 2)) for rank in range(2)]


def test_a_global_batch_size_is_shared_out(url: str) -> None:
    """Among as many ranks as there are; what cannot be is refused with numbers that can."""
    loader = make(url, 1, 4, batch_size=1, global_batch_size=20)
    assert loader.batch_size == 5
    assert marked(loader) == marked(make(url, 1, 4, batch_size=5))
    with pytest.raises(ConfigError, match="global_batch_size=10 cannot be shared out among 4 ranks: use 8 or 12"):
        iter(make(url, 0, 4, batch_size=1, global_batch_size=10))
    with pytest.raises(ConfigError, match="batch_size=2 and global_batch_size=8 were given"):
        make(url, 0, 4, batch_size=2, global_batch_size=8)


def test_the_mask_is_there_where_repeats_may_be_or_when_asked(url: str, tmp_path: Path) -> None:
    """So that a script may rely on it."""
    assert "_mask" not in next(iter(make(url, 0, 1)))
    assert "_mask" in next(iter(make(url, 0, 1, mask=True)))
    assert "_mask" in next(iter(make(url, 0, 2)))
    for options in ({"mask": False}, {"pad": False}, {"drop_last": True}):
        assert "_mask" not in next(iter(make(url, 0, 2, **options)))
    schema = forms.Schema([forms.stored("_mask", "int64")])
    taken = forms.write(tmp_path, schema, 4)
    with pytest.raises(ConfigError, match="the dataset has a feature '_mask'"):
        Loader(taken)
    assert len(next(iter(Loader(taken, mask=False)))["_mask"]) == 1  # type: ignore[arg-type]
