"""Check that every sample comes once an epoch, in an order that nothing but seed and epoch change."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import feeding
import forms
import pytest

from datafeed import Loader
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError, CorruptFrame
from datafeed.images import ImageOptions
from datafeed.loader import Shuffle
from datafeed.shard import shard_name

COUNT = 211
MODES: tuple[Shuffle, ...] = ("window", "full", False)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of many small extents."""
    return forms.write(tmp_path_factory.mktemp("small"), records=COUNT, per_block=5, shards=4, extent_size=600)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("batch_size", "lanes", "window", "workers"),
    [(1, 1, 1, 0), (7, 3, "2KB", 1), (32, 48, "512MB", 2), (64, 300, "1KB", 3), (211, 7, "5KB", 2), (500, 48, 1, 1)],
)
def test_every_sample_comes_once_an_epoch(
    url: str, mode: Shuffle, batch_size: int, lanes: int, window: str | int, workers: int
) -> None:
    """Whatever the lanes, the window, the batch and the threads, in two epochs."""
    loader = Loader(url, batch_size, mode, num_workers=workers, lanes=lanes, window=window)
    for _ in range(2):
        batches = list(loader)
        assert [len(batch["tokens"]) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
        found = feeding.flat(batches)
        assert sorted(found) == list(range(COUNT))
        assert (found == list(range(COUNT))) is (mode is False)


@pytest.mark.parametrize("records", [1, 2, 47, 48, 49])
@pytest.mark.parametrize("mode", MODES)
def test_f59_fewer_records_than_lanes_come_once(tmp_path: Path, mode: Shuffle, records: int) -> None:
    """A lane may be empty."""
    url = forms.write(tmp_path, records=records, per_block=2, extent_size=1)
    assert sorted(feeding.flat(Loader(url, 5, mode, num_workers=1))) == list(range(records))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("records", "drop_last", "sizes"), [(0, False, []), (3, False, [3]), (3, True, []), (0, True, [])]
)
def test_f59_fewer_records_than_a_batch_follow_drop_last(
    tmp_path: Path, mode: Shuffle, records: int, sizes: list[int], *, drop_last: bool
) -> None:
    """They are one short batch or none; the epoch ends and the next begins."""
    loader = Loader(forms.write(tmp_path, records=records), 8, mode, num_workers=1, drop_last=drop_last)
    for epoch in range(2):
        assert len(loader) == len(sizes)
        assert [len(batch["id"]) for batch in loader] == sizes
        assert loader.state_dict()["epoch"] == epoch + 1


@pytest.mark.parametrize("mode", MODES)
def test_the_batches_are_the_same_for_any_number_of_workers(url: str, mode: Shuffle) -> None:
    """And for any two runs."""
    first, *others = (
        feeding.plain(list(Loader(url, 16, mode, num_workers=workers, seed=5))) for workers in (0, 0, 1, 2, 5)
    )
    assert all(other == first for other in others)


@pytest.mark.parametrize("mode", MODES)
def test_f45_the_batches_before_a_damaged_block_come(tmp_path: Path, mode: Shuffle) -> None:
    """All of them, for any number of workers: also where several are made at a time."""
    url = forms.write(tmp_path, records=COUNT, per_block=5, shards=4, extent_size=600)
    dataset = Dataset(url)
    order = feeding.flat(Loader(url, 8, mode, lanes=3, window="2KB"))
    met = dict.fromkeys((dataset.index.first.searchsorted(order, side="right") - 1).tolist())
    block = list(met)[-1]  # the last one to be needed
    shard = tmp_path / shard_name(int(dataset.index.shard[block]))
    data = bytearray(shard.read_bytes())
    data[int(dataset.index.offset[block]) + 30] ^= 1
    shard.write_bytes(data)
    came: list[list[list[int]]] = []
    for workers in (0, 1, 3):
        came.append([])
        loader = Loader(url, 8, mode, num_workers=workers, lanes=3, window="2KB")
        batches = iter(loader)
        with pytest.raises(CorruptFrame, match=shard.name):
            came[-1].extend(feeding.ids([batch])[0] for batch in batches)
    assert 4 < len(came[0]) <= COUNT // 8
    assert came == [came[0]] * 3


def test_every_value_of_every_form_comes_in_a_batch(tmp_path: Path) -> None:
    """A batch is the columns of its samples."""
    url = forms.write(tmp_path, forms.SCHEMA, 23)
    for batch in Loader(url, 9, shuffle=True, num_workers=2):
        for row, number in enumerate(batch["id"].tolist()):  # type: ignore[union-attr]
            for name, expected in forms.sample(forms.SCHEMA, number).items():
                present = batch.get(f"{name}.present")
                assert (present is not None) is forms.SCHEMA[name].optional
                assert present is None or bool(present[row]) == (expected is not None)
                found = batch[name][row]
                if expected is not None:
                    assert forms.same(found.numpy() if hasattr(found, "numpy") else found, expected)


@pytest.mark.parametrize("mode", ["window", "full"])
def test_epochs_and_seeds_differ(url: str, mode: Shuffle) -> None:
    """Each `iter` is the next epoch; a seed of its own is another order."""
    loader = Loader(url, 10, mode, num_workers=1)
    epochs = [feeding.flat(loader) for _ in range(3)]
    other = Loader(url, 10, mode, num_workers=1, seed=1)
    for one, two in itertools.combinations([*epochs, feeding.flat(other)], 2):
        assert one != two


def test_set_epoch_fixes_the_next_one(url: str) -> None:
    """Also back, also in the middle of an epoch; the one after it is the next."""
    loader = Loader(url, 10, shuffle=True, num_workers=1)
    first, second, third = (feeding.flat(loader) for _ in range(3))
    loader.set_epoch(1)
    assert feeding.saved(loader)["epoch"] == 1
    assert feeding.take(loader, 2)
    loader.set_epoch(1)
    assert [feeding.flat(loader) for _ in range(2)] == [second, third]
    loader.set_epoch(0)
    assert feeding.flat(loader) == first


@pytest.mark.parametrize("epoch", [-1, 1.5, None, "1", True])
def test_an_epoch_that_is_none_is_refused(url: str, epoch: object) -> None:
    """It counts from 0."""
    with pytest.raises(ConfigError, match="epoch must be"):
        Loader(url).set_epoch(epoch)  # type: ignore[arg-type]


def test_two_iterators_at_once_are_both_right(url: str) -> None:
    """They are two epochs; the state speaks of the newest."""
    loader = Loader(url, 10, shuffle=True, num_workers=2)
    epochs = [feeding.flat(loader) for _ in range(2)]
    loader.set_epoch(0)
    one, two = iter(loader), iter(loader)
    pairs = list(zip(one, two, strict=True))
    assert [feeding.flat(batches) for batches in zip(*pairs, strict=True)] == epochs
    assert loader.state_dict()["epoch"] == 2


def test_f73_a_list_of_batches_keeps_each_intact(url: str) -> None:
    """No buffer is used again while a batch lives: each equals its copy at the time it came."""
    loader = Loader(url, 8, shuffle=True, num_workers=3)
    batches, copies = [], []
    for batch in loader:
        batches.append(batch)
        copies.append(feeding.plain(batch))
    assert [feeding.plain(batch) for batch in batches] == copies


@pytest.mark.parametrize("workers", [0, 2])
def test_f73_pictures_that_are_kept_stay_as_they_are(tmp_path: Path, workers: int) -> None:
    """Their memory is used again only when nobody sees it, in this epoch or the next."""
    url = forms.write(tmp_path, forms.IMAGES, 60)
    loader = Loader(url, 4, num_workers=workers, image=ImageOptions(8))
    kept = [(batch["id"].tolist(), batch["photo"][1]) for _ in range(3) for batch in loader]
    assert len(kept) == 45
    for ids, photo in kept:
        red, green, blue = photo[:, 4, 4].tolist()
        expected = forms.colour(ids[1])
        assert max(abs(a - b) for a, b in zip((red, green, blue), expected, strict=True)) < 6


def test_f73_writing_to_a_batch_harms_no_other(url: str) -> None:
    """A batch is the caller's own, also over the next epoch."""
    loader = Loader(url, 8, shuffle=False, num_workers=2)
    clean = feeding.plain(list(loader))
    for batch in loader:
        batch["tokens"].fill_(7)  # type: ignore[union-attr]
        batch["id"].fill_(-1)  # type: ignore[union-attr]
    assert feeding.plain(list(loader)) == clean


def test_an_ended_iterator_stays_ended(url: str) -> None:
    """As Python asks of every iterator."""
    iterator = iter(Loader(url, 100, num_workers=1))
    assert len(list(iterator)) == 3
    assert list(iterator) == []
    with pytest.raises(StopIteration):
        next(iterator)


def test_the_state_is_small_and_is_json(url: str) -> None:
    """It names all that the order depends on."""
    state = Loader(url, 10, shuffle=True, seed=3).state_dict()
    assert set(state) == {
        "format", "order", "dataset", "extent_size", "mode", "seed", "lanes", "window", "epoch", "position",
    }  # fmt: skip
    assert len(json.dumps(state)) < 400
