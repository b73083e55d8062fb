"""Check that over a torch Dataset the loader is torch's own, batch for batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import feeding
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from datafeed import ImageOptions, Loader
from datafeed.errors import ConfigError


class Squares(Dataset[dict[str, object]]):
    """Offer samples by number."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, number: int) -> dict[str, object]:
        return {"x": number, "y": torch.full((2,), number**2), "name": f"n{number}"}


class Stream(IterableDataset[int]):
    """Offer samples in turn."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(11))


def joined(samples: list[dict[str, object]]) -> list[object]:
    """Collate to a list."""
    return [sample["x"] for sample in samples]


def seeded() -> torch.Generator:
    """Return a generator in a known state."""
    return torch.Generator().manual_seed(3)


PAIRS = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
CASES: list[tuple[object, Callable[[], dict[str, object]]]] = [
    (Squares(), dict),
    (Squares(), lambda: {"batch_size": 6}),
    (Squares(), lambda: {"batch_size": 6, "drop_last": True}),
    (Squares(), lambda: {"batch_size": None}),
    (Squares(), lambda: {"batch_size": 4, "shuffle": True, "generator": seeded()}),
    (Squares(), lambda: {"batch_size": 4, "sampler": RandomSampler(range(20), generator=seeded())}),
    (Squares(), lambda: {"sampler": [3, 1, 2]}),
    (Squares(), lambda: {"sampler": WeightedRandomSampler([1.0] * 20, 9, generator=seeded()), "batch_size": 2}),
    (Squares(), lambda: {"batch_sampler": BatchSampler(SequentialSampler(range(20)), 7, drop_last=False)}),
    (Squares(), lambda: {"batch_size": 5, "collate_fn": joined}),
    (Squares(), lambda: {"batch_size": 3, "num_workers": 2, "multiprocessing_context": "fork"}),
    (Squares(), lambda: {"batch_size": 3, "num_workers": 1, "multiprocessing_context": "fork", "prefetch_factor": 4}),
    (Squares(), lambda: {"batch_size": 3, "num_workers": None}),
    (PAIRS, lambda: {"batch_size": 4}),
    (Stream(), lambda: {"batch_size": 4}),
    (Stream(), lambda: {"batch_size": 4, "drop_last": True}),
    ([1, 2, 3], lambda: {"batch_size": 2}),
]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_batches_and_the_length_are_torchs(number: int) -> None:
    """Two epochs of them."""
    dataset, options = CASES[number]
    theirs = DataLoader(dataset, **{**options(), "num_workers": options().get("num_workers") or 0})  # type: ignore[arg-type]
    ours = Loader(dataset, **options())  # type: ignore[arg-type]
    for _ in range(2):
        assert feeding.plain(list(ours)) == feeding.plain(list(theirs))
    assert isinstance(dataset, IterableDataset) or len(ours) == len(theirs)
    assert ours.dataset is dataset
    assert ours.num_workers == theirs.num_workers


def test_no_workers_are_started_unless_asked() -> None:
    """Torch's default stays."""
    assert Loader(Squares()).num_workers == 0


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 1}, {"transform": print}, {"image": ImageOptions(8)}, {"columns": ["x"]},
        {"lanes": 8}, {"window": "1GB"}, {"storage_options": {}}, {"shuffle": "full"}, {"shuffle": "window"},
    ],
)  # fmt: skip
def test_what_needs_a_converted_dataset_is_refused_by_name(options: dict[str, object]) -> None:
    """An argument that we accept has an effect."""
    with pytest.raises(ConfigError, match=f"{next(iter(options))}=.* needs a converted dataset"):
        Loader(Squares(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2}])
def test_torch_checks_its_own_arguments(options: dict[str, object]) -> None:
    """With its own words."""
    with pytest.raises(ValueError) as theirs:  # noqa: PT011  (compared below)
        DataLoader(Squares(), **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError) as ours:  # noqa: PT011
        Loader(Squares(), **options)  # type: ignore[arg-type]
    assert str(ours.value) == str(theirs.value)


def test_a_path_is_never_taken_for_a_torch_dataset(tmp_path: Path) -> None:
    """A string has a length and items too."""
    with pytest.raises(FileNotFoundError):
        Loader(str(tmp_path / "none"))
