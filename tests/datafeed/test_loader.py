"""Check that the loader looks like torch's, and refuses what it cannot honour."""

from __future__ import annotations

import inspect
from pathlib import Path

import forms
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from datafeed import Dataset, ImageOptions, Loader
from datafeed.errors import ConfigError, DatasetNotFound, SchemaError
from datafeed.loader import default_workers

COUNT = 50


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of a few features."""
    return forms.write(tmp_path_factory.mktemp("small"), records=COUNT)


def test_the_signature_is_torchs_with_ours_behind() -> None:
    """Every parameter of torch has its name, kind, place and default; only the workers differ."""
    theirs = inspect.signature(DataLoader.__init__).parameters
    ours = inspect.signature(Loader.__init__).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].kind is parameter.kind
        assert name == "num_workers" or ours[name].default == parameter.default
    assert ours["num_workers"].default is None
    assert {ours[name].kind for name in list(ours)[len(theirs) :]} == {inspect.Parameter.KEYWORD_ONLY}


def test_frameworks_take_it_for_a_dataloader(url: str) -> None:
    """Its dataset is an iterable one with a length, so that no sampler is put before it."""
    loader = Loader(url, 8)
    assert isinstance(loader, DataLoader)
    assert isinstance(loader.dataset, IterableDataset)
    assert len(loader.dataset) == COUNT  # type: ignore[arg-type]  # it has one
    assert [sample["id"] for sample in loader.dataset] == list(range(COUNT))
    assert loader.batch_size == 8


@pytest.mark.parametrize(
    ("batch_size", "drop_last"), [(1, False), (7, False), (7, True), (50, True), (51, True), (60, False)]
)
def test_it_has_torchs_length_when_the_last_batch_is_short(url: str, batch_size: int, *, drop_last: bool) -> None:
    """The number and the sizes of batches are those of torch over a list as long."""
    theirs = DataLoader(range(COUNT), batch_size, drop_last=drop_last)  # type: ignore[arg-type]
    ours = Loader(url, batch_size, drop_last=drop_last, num_workers=1)
    assert len(ours) == len(theirs)
    assert [len(batch["id"]) for batch in ours] == [len(batch) for batch in theirs]


def test_a_path_a_url_and_an_open_dataset_are_all_taken(url: str) -> None:
    """They give the same."""
    for dataset in (url, Path(url), Dataset(url), f"file://{url}"):
        assert next(iter(Loader(dataset, 5, num_workers=0)))["id"].tolist() == list(range(5))


def test_a_raw_folder_is_told_to_convert(tmp_path: Path) -> None:
    """The message names the command."""
    with pytest.raises(DatasetNotFound, match="datafeed convert"):
        Loader(tmp_path)


def _of_three(sample: dict[str, object], rng: np.random.Generator, extra: int) -> dict[str, object]:  # noqa: ARG001
    return sample


def _nested(sample: dict[str, object], rng: np.random.Generator) -> dict[str, object]:  # noqa: ARG001
    return {"a": {"b": [sample["id"]]}}


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"sampler": RandomSampler(range(3))}, "sampler= cannot be honoured .*shuffle=True"),
    ({"sampler": []}, "sampler= cannot be honoured"),
    ({"sampler": np.array([1, 2])}, "sampler= cannot be honoured"),
    ({"batch_sampler": [[0]]}, "batch_sampler= cannot be honoured .*batch_size="),
    ({"collate_fn": list}, "collate_fn= cannot be honoured .*transform="),
    ({"worker_init_fn": print}, "worker_init_fn= cannot be honoured"),
    ({"multiprocessing_context": "spawn"}, "multiprocessing_context= cannot be honoured .*threads"),
    ({"generator": torch.Generator()}, "generator= cannot be honoured .*seed="),
    ({"persistent_workers": True}, "persistent_workers= cannot be honoured"),
    ({"pin_memory_device": "cuda"}, "pin_memory_device= cannot be honoured .*device="),
    ({"in_order": False}, "in_order= cannot be honoured"),
    ({"batch_size": 0}, "batch_size must be at least 1, found 0"),
    ({"batch_size": -1}, "batch_size must be at least 1, found -1"),
    ({"batch_size": None}, "batch_size=None cannot be honoured"),
    ({"batch_size": True}, "batch_size must be an integer, found True"),
    ({"batch_size": 2.5}, r"batch_size must be an integer, found 2\.5"),
    ({"batch_size": "4"}, "batch_size must be an integer, found '4'"),
    ({"num_workers": -1}, "num_workers must be at least 0, found -1"),
    ({"prefetch_factor": 1}, "prefetch_factor must be at least 2, found 1"),
    ({"prefetch_factor": 4, "num_workers": 0}, "prefetch_factor= needs num_workers"),
    ({"timeout": 5, "num_workers": 0}, "timeout= needs num_workers"),
    ({"timeout": -1}, "timeout must be at least 0 seconds, found -1"),
    ({"timeout": float("nan")}, "timeout must be at least 0 seconds"),
    ({"lanes": 0}, "lanes must be at least 1, found 0"),
    ({"seed": 1.5}, r"seed must be an integer, found 1\.5"),
    ({"seed": None}, "seed must be an integer, found None"),
    ({"window": "10 QB"}, "window '10 QB' is no size"),
    ({"window": 0}, "window must be at least one byte"),
    ({"shuffle": "sorted"}, "shuffle must be True, 'window', 'full', False or None, found 'sorted'"),
    ({"shuffle": "natural"}, "shuffle must be"),
    ({"shuffle": ["full"]}, "shuffle must be"),
    ({"columns": "id"}, r"columns must be a list of names, found 'id'"),
    ({"image": ImageOptions(8)}, "image= is given, but no feature of .* is an image"),
    ({"image": 224}, r"image must be ImageOptions\(size=\.\.\.\), found 224"),
    ({"transform": 5}, r"transform must take \(sample, rng\), found 5"),
    ({"transform": lambda sample: sample}, r"transform must take \(sample, rng\)"),
    ({"transform": _of_three}, r"transform must take \(sample, rng\)"),
    ({"device": "abacus"}, "device='abacus' is none that torch knows"),
    ({"device": "cuda:99"}, "device='cuda:99' is not there: torch found . CUDA devices"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"), REFUSED, ids=lambda value: "-".join(value) if isinstance(value, dict) else ""
)
def test_what_cannot_be_honoured_is_refused_at_once_by_name(url: str, options: dict[str, object], message: str) -> None:
    """The message says what does the same, or what was expected."""
    with pytest.raises(ConfigError, match=message):
        Loader(url, **options)  # type: ignore[arg-type]


def test_every_argument_of_torchs_has_an_effect_or_is_refused() -> None:
    """None is taken and passed over."""
    theirs = set(inspect.signature(DataLoader.__init__).parameters) - {"self", "dataset"}
    honoured = {"batch_size", "shuffle", "num_workers", "pin_memory", "drop_last", "timeout", "prefetch_factor"}
    assert theirs - honoured <= {name for options, _ in REFUSED for name in options}


def test_storage_options_of_an_open_dataset_are_refused(url: str) -> None:
    """They would have no effect."""
    with pytest.raises(ConfigError, match="storage_options="):
        Loader(Dataset(url), storage_options={"anon": True})


def test_an_unknown_column_is_told_those_there_are(url: str) -> None:
    """The names are listed."""
    with pytest.raises(SchemaError, match="no feature 'label'; there are 'id', 'tokens', 'text'"):
        Loader(url, columns=["id", "label"])


def test_columns_choose_what_a_batch_has(url: str) -> None:
    """They come in the order asked."""
    batch = next(iter(Loader(url, 4, columns=["text", "id"], num_workers=0)))
    assert list(batch) == ["text", "id"]


def test_integers_of_numpy_are_integers(url: str) -> None:
    """A state made with them is still JSON."""
    loader = Loader(url, np.int64(8), seed=np.int64(3), lanes=np.uint8(4), num_workers=np.int32(1))  # type: ignore[arg-type]
    iterator = iter(loader)
    next(iterator)
    assert type(loader.state_dict()["seed"]) is int
    assert type(loader.state_dict()["position"]) is int


def test_the_default_is_most_of_the_cores(url: str) -> None:
    """At least one thread is left to the training loop, where there are several cores."""
    assert default_workers() >= 1
    assert Loader(url)._feed.options.num_workers == default_workers()  # type: ignore[union-attr]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_pinned_memory_without_cuda_warns(url: str) -> None:
    """It goes on without, as torch does."""
    with pytest.warns(UserWarning, match="pin_memory=True has no effect: no CUDA device was found") as caught:
        loader = Loader(url, 5, pin_memory=True, num_workers=0)
    assert caught[0].filename == __file__
    assert len(next(iter(loader))["id"]) == 5


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_batches_are_on_the_device_that_is_asked(url: str, device: str | torch.device) -> None:
    """Tensors are, at any depth; text stays."""
    deep = Loader(url, 5, num_workers=0, device="meta", transform=_nested)
    assert next(iter(deep))["a"]["b"][0].device.type == "meta"  # type: ignore[index]
    batch = next(iter(Loader(url, 5, num_workers=0, device=device)))
    assert batch["id"].device.type == "cpu"  # type: ignore[union-attr]
    assert isinstance(batch["text"], list)
