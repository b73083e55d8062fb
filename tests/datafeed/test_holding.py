"""Check that a Loader that keeps samples on its device gives the same batches, and reads less."""

from __future__ import annotations

import pickle
from pathlib import Path

import feeding
import forms
import pytest
import torch

from datafeed import Cache, Dataset, ImageOptions, Loader
from datafeed.errors import ConfigError

COUNT = 150
HELD = [
    feature.name
    for feature in forms.SCHEMA
    if (feature.numeric and not feature.ragged) or (feature.is_image and not feature.shape)
]
IMAGE = ImageOptions((6, 9))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of every form, on a store that is not a local path."""
    return "local://" + forms.write(Path(tmp_path_factory.mktemp("held")), forms.SCHEMA, COUNT)


def opened(url: str, vram: str | int | None, **given: object) -> Loader:
    """Open a loader of all that can be kept on a device."""
    settings: dict[str, object] = {
        "shuffle": True, "num_workers": 2, "lanes": 4, "window": 20_000, "columns": HELD, "image": IMAGE, **given
    }  # fmt: skip
    cache = None if vram is None else Cache(vram=vram)
    return Loader(url, 8, device="cpu", cache=cache, **settings)  # type: ignore[arg-type]


def epochs(loader: Loader, count: int = 3) -> list[object]:
    """Return the batches of some epochs as plain values."""
    return [[feeding.plain(batch) for batch in loader] for _ in range(count)]


@pytest.mark.parametrize("vram", ["1MB", 60_000, 3_000])
@pytest.mark.parametrize("shuffle", [True, "full", False])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_batches_are_the_same(url: str, vram: str | int, shuffle: object, workers: int) -> None:
    """Whether all samples fit, some do, or very few; in their memory layout, too."""
    plain = opened(url, None, shuffle=shuffle, num_workers=workers)
    loader = opened(url, vram, shuffle=shuffle, num_workers=workers)
    assert epochs(loader) == epochs(plain)
    for mine, theirs in zip(loader, plain, strict=True):
        assert list(mine) == list(theirs)
        strides = [(name, tensor.stride()) for name, tensor in theirs.items() if isinstance(tensor, torch.Tensor)]
        assert [(name, tensor.stride()) for name, tensor in mine.items()] == strides  # type: ignore[union-attr]


def test_what_is_kept_is_not_read(url: str) -> None:
    """The second epoch takes no block where all samples fit, and fewer where some do; the figures say it."""
    loader = opened(url, "1MB")
    epochs(loader, 1)
    assert loader.stats().blocks
    assert [tier.name for tier in loader.stats().tiers] == ["vram", "store"]
    assert loader.stats().tiers[0].samples == 0
    assert loader.stats().tiers[0].admitted == COUNT
    epochs(loader, 1)
    assert loader.stats().blocks == 0
    vram, store = loader.stats().tiers
    assert (vram.samples, vram.admitted, store.blocks, store.admitted) == (COUNT, 0, 0, 0)
    assert vram.nbytes == COUNT * loader._feed._tier.sample_nbytes  # type: ignore[union-attr]
    half = opened(url, vram.nbytes // 2, shuffle=True)
    epochs(half, 1)
    cold = half.stats().tiers[-1].admitted
    epochs(half, 1)
    assert half.stats().tiers[0].samples == COUNT // 2
    assert half.stats().tiers[-1].admitted < cold


def test_what_is_kept_is_not_waited_for(url: str) -> None:
    """At the end of an epoch nothing that was fetched stands by for samples that came from the device."""
    loader = opened(url, 60_000)
    epochs(loader, 1)
    for _ in range(2):
        iterator = iter(loader)
        assert len(list(iterator)) == -(-COUNT // 8)
        assert loader.stats().blocks
        assert loader.stats().tiers[0].samples
        assert not iterator._reading._demand.left.any()  # type: ignore[attr-defined]


def test_a_subset_that_names_samples_twice(url: str) -> None:
    """Each time it comes it is right; numbers are those of the whole dataset."""
    numbers = [5, 140, 5, 7, 5, 5, 99, 7, *range(60, 90)]
    for shuffle in (True, False):
        part = Dataset(url, cache=Cache(vram=20_000)).subset(numbers)
        given = {"shuffle": shuffle, "num_workers": 2, "lanes": 4, "columns": HELD, "image": IMAGE}
        loader = Loader(part, 8, device="cpu", **given)  # type: ignore[arg-type]
        plain = Loader(Dataset(url).subset(numbers), 8, **given)  # type: ignore[arg-type]
        assert epochs(loader, 4) == epochs(plain, 4)


def test_a_resumed_epoch_and_one_that_is_left(url: str) -> None:
    """The state counts what was handed out, wherever it came from; an iterator that is dropped lets go."""
    plain, loader = opened(url, None), opened(url, 40_000)
    for each in (plain, loader):
        epochs(each, 1)
        feeding.take(each, 5)
    state = feeding.saved(loader)
    assert state == feeding.saved(plain)
    loader.load_state_dict(state)
    plain.load_state_dict(state)
    assert epochs(loader) == epochs(plain)


def test_ranks_and_their_mask(url: str) -> None:
    """A short rank's repeats come from the device, too, and are marked."""
    for rank in range(4):
        given = {"rank": rank, "world_size": 4}
        assert epochs(opened(url, "1MB", **given)) == epochs(opened(url, None, **given))


def test_a_pickled_loader_begins_with_an_empty_tier(url: str) -> None:
    """What is on a device belongs to one process."""
    loader = opened(url, "1MB")
    first = epochs(loader, 1)
    copy = pickle.loads(pickle.dumps(loader))  # noqa: S301
    copy.set_epoch(0)
    assert epochs(copy, 1) == first
    assert copy.stats().tiers[0].admitted == COUNT


def test_with_memory_and_a_disk_below(url: str, tmp_path: Path) -> None:
    """The tiers add up: what the device does not keep comes from memory or the disk."""
    plain = opened(url, None)
    cache = Cache(vram=30_000, host="1MB", nvme=(tmp_path, "1MB"))
    loader = Loader(
        url,
        8,
        shuffle=True,
        num_workers=2,
        lanes=4,
        window=20_000,
        columns=HELD,
        image=IMAGE,
        device="cpu",
        cache=cache,
    )
    assert epochs(loader) == epochs(plain)
    assert [tier.name for tier in loader.stats().tiers] == ["vram", "host", "nvme", "store"]
    assert loader.stats().tiers[-1].blocks == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": None}, r"vram='1MB' needs a device to keep samples on: give device=\"cuda\""),
        ({"columns": None}, r"not 'bool.ragged' \(ragged bool\), .* and 15 more: choose others"),
        (
            {"columns": ["id", "text", "blobs"], "image": None},
            r"not 'text' \(utf8\), 'blobs' \(.*\): choose others by columns=",
        ),
        ({"image": None}, r"'photo' \(encoded images\).*decode images by image="),
        ({"image": ImageOptions(6, crop="random")}, "cut or mirrored at random"),
        ({"image": ImageOptions(6, flip=0.5)}, "cut or mirrored at random"),
        ({"transform": lambda sample, _: sample}, "transform= makes anew"),
        ({"cache": Cache(vram=10)}, "vram=10 is too small: one sample takes"),
        ({"cache": Cache(vram="900TB")}, "vram='900TB' is more than the .* that cpu has"),
    ],
)
def test_what_cannot_be_kept_is_refused(url: str, given: dict[str, object], message: str) -> None:
    """When the loader is made, by name, with what to do."""
    settings = {"device": "cpu", "columns": HELD, "image": IMAGE, "cache": Cache(vram="1MB"), **given}
    with pytest.raises(ConfigError, match=message):
        Loader(url, 8, **settings)  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="NOT TESTED: no CUDA device")
def test_the_batches_are_the_same_on_a_gpu(url: str) -> None:
    """They lie on the device, and hold what they hold without the tier."""
    given = {"shuffle": True, "num_workers": 2, "lanes": 4, "window": 20_000, "columns": HELD, "image": IMAGE}
    loader = Loader(url, 8, device="cuda", cache=Cache(vram=40_000), **given)  # type: ignore[arg-type]
    for _ in range(3):
        batches = list(loader)
        assert all(tensor.is_cuda for batch in batches for tensor in batch.values())  # type: ignore[union-attr]
        assert len(batches) == -(-COUNT // 8)
    host = [{name: tensor.cpu() for name, tensor in batch.items()} for batch in loader]  # type: ignore[union-attr]
    plain = opened(url, None)
    plain.set_epoch(3)
    assert [feeding.plain(batch) for batch in host] == [feeding.plain(batch) for batch in plain]
