"""Check that a saved loader goes on exactly where it was, any number of times."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import feeding
import forms
import pytest

from datafeed import Loader
from datafeed.errors import StateMismatch
from datafeed.loader import Shuffle

COUNT = 83
MODES: tuple[Shuffle, ...] = ("window", "full", False)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of many small extents."""
    return forms.write(tmp_path_factory.mktemp("small"), records=COUNT, per_block=3, shards=4, extent_size=500)


def make(url: str, mode: Shuffle = "window", batch_size: int = 8, **options: object) -> Loader:
    """Make a loader of few lanes."""
    given: dict[str, object] = {"num_workers": 1, "lanes": 5, "window": "3KB", "seed": 4, **options}
    return Loader(url, batch_size, mode, **given)  # type: ignore[arg-type]


def resumed(
    url: str, state: dict[str, object], mode: Shuffle = "window", batch_size: int = 8, **options: object
) -> Loader:
    """Make a loader anew, and load a state."""
    loader = make(url, mode, batch_size, **options)
    loader.load_state_dict(state)
    return loader


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_the_rest_is_the_same_when_saved_after_any_batch(url: str, mode: Shuffle, *, drop_last: bool) -> None:
    """Before the first batch, after each, after the last; the epoch after it too, and the state right after loading."""
    whole = make(url, mode, drop_last=drop_last)
    epochs = [feeding.ids(whole) for _ in range(2)]
    for count in range(len(epochs[0]) + 1):
        loader = make(url, mode, drop_last=drop_last)
        assert feeding.ids(feeding.take(loader, count)) == epochs[0][:count]
        state = feeding.saved(loader)
        again = resumed(url, state, mode, drop_last=drop_last)
        assert feeding.saved(again) == state
        expected = [epochs[0][count:], epochs[1]] if 0 < count < len(epochs[0]) else epochs[count > 0 :]
        assert [feeding.ids(again) for _ in expected] == expected


def test_f78_save_and_resume_over_and_over_is_one_run(url: str) -> None:
    """One or two batches at a time, over two epochs, each time from a fresh loader."""
    whole = make(url)
    expected = [batch for _ in range(2) for batch in feeding.ids(whole)]
    found: list[list[int]] = []
    state = feeding.saved(make(url))
    for count in itertools.cycle((1, 0, 2, 1)):
        if state["epoch"] == 2:
            break
        loader = resumed(url, state)
        found += feeding.ids(feeding.take(loader, count))
        state = feeding.saved(loader)
    assert found == expected


def test_f79_a_state_loaded_after_iter_is_honoured_and_later_epochs_are_whole(url: str) -> None:
    """The iterator that runs goes on; the next one begins where the state says."""
    epochs = [feeding.ids(loader) for loader in [make(url)] * 3]
    loader = make(url)
    running = iter(loader)
    next(running)
    state = {**feeding.saved(loader), "epoch": 1, "position": 24}
    loader.load_state_dict(state)
    assert feeding.saved(loader) == state
    assert feeding.ids(running) == epochs[0][1:]
    assert [feeding.ids(loader) for _ in range(2)] == [epochs[1][3:], epochs[2]]


def test_the_state_counts_what_was_handed_out(url: str) -> None:
    """Not what was made ahead."""
    loader = make(url, num_workers=3, prefetch_factor=8)
    iterator = iter(loader)
    positions = []
    for _ in range(4):
        positions.append(loader.state_dict()["position"])
        next(iterator)
    assert positions == [0, 8, 16, 24]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("batch_size", [1, 5, 8, 100])
def test_f70_another_batch_size_sees_exactly_what_was_left(url: str, mode: Shuffle, batch_size: int) -> None:
    """In the same order."""
    first = make(url, mode)
    seen = feeding.flat(feeding.take(first, 3))
    left = feeding.flat(resumed(url, feeding.saved(first), mode, batch_size, num_workers=2))
    assert seen + left == feeding.flat(make(url, mode))


def test_f70_a_dropped_tail_is_that_of_the_new_batch_size(url: str) -> None:
    """What is left is cut into whole batches, and the epoch ends."""
    first = make(url, drop_last=True)
    feeding.take(first, 3)
    again = resumed(url, feeding.saved(first), batch_size=10, drop_last=True)
    assert [len(batch) for batch in feeding.ids(again)] == [10] * ((COUNT - 24) // 10)
    assert again.state_dict()["epoch"] == 1
    empty = resumed(url, {**feeding.saved(first), "position": COUNT - 3}, batch_size=10, drop_last=True)
    assert feeding.ids(empty) == []
    assert len(feeding.ids(empty)) == COUNT // 10


def test_set_epoch_of_the_loaded_epoch_keeps_the_position(url: str) -> None:
    """A loop that calls `set_epoch` first resumes like one that does not; another epoch begins at its start."""
    first = make(url)
    rest = feeding.ids(first)[4:]
    first.set_epoch(0)
    feeding.take(first, 4)
    state = feeding.saved(first)
    again = resumed(url, state)
    again.set_epoch(0)
    assert feeding.ids(again) == rest
    other = resumed(url, state)
    other.set_epoch(1)
    assert len(feeding.flat(other)) == COUNT


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"seed": 9}, "seed is 4 in the state and 9 here"),
        ({"lanes": 6}, "lanes is 5 in the state and 6 here"),
        ({"mode": "full"}, "mode is 'window' in the state and 'full' here"),
        ({"window": "1KB"}, "window is"),
    ],
)
def test_f71_a_state_of_another_order_is_refused(url: str, options: dict[str, object], named: str) -> None:
    """The difference is named, and what the loader was about to do is not changed."""
    loader = make(url, **options)  # type: ignore[arg-type]
    loader.set_epoch(7)
    with pytest.raises(StateMismatch, match=f"{named}.*Build the Loader as it was built then"):
        loader.load_state_dict(feeding.saved(make(url)))
    assert loader.state_dict()["epoch"] == 7


def test_f71_a_state_of_another_dataset_is_refused(url: str, tmp_path: Path) -> None:
    """Even if it is as long."""
    other = forms.write(tmp_path, records=COUNT, per_block=4)
    with pytest.raises(StateMismatch, match=r"dataset is '[0-9a-f]+' in the state and"):
        make(other).load_state_dict(feeding.saved(make(url)))


@pytest.mark.parametrize("count", [0, 2, 100])
def test_f89_a_pickled_loader_goes_on_where_its_original_stands(url: str, count: int) -> None:
    """Before its first batch, within an epoch, at its end."""
    loader = make(url)
    iterator = iter(loader) if count else None
    assert iterator is None or list(itertools.islice(iterator, count))
    copy = pickle.loads(pickle.dumps(loader))  # noqa: S301
    assert copy.state_dict() == loader.state_dict()
    rest = feeding.ids(iterator or ())
    assert feeding.ids(copy) == rest if rest else len(feeding.flat(copy)) == COUNT
    assert copy.state_dict()["epoch"] == (1 if rest or not count else 2)
