"""Check that random crops and flips are the same however a dataset is read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import cv2
import feeding
import forms
import numpy as np
import pytest
import torch

from datafeed import ImageOptions, Loader
from datafeed.making import Batch
from datafeed.schema import Feature, Schema, stored

COUNT = 90
OPTIONS = ImageOptions((12, 16), crop="random", flip=0.5)
PAIR = Schema([stored("id", "int64"), *(stored(name, "bytes", media="image/png") for name in ("photo", "mask"))])


def ramp(feature: Feature, number: int) -> object:
    """Return the same sloping picture for every record, so that only its crop tells one from another."""
    if feature.name == "id":
        return number
    pixels = np.zeros((60, 80, 3), np.uint8)
    pixels[..., 0] = np.linspace(0, 255, 80)[None]
    pixels[..., 1] = np.linspace(0, 255, 60)[:, None]
    return bytes(cv2.imencode(".png", pixels)[1])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of pairs of equal pictures."""
    return forms.write(Path(tmp_path_factory.mktemp("pairs")), PAIR, COUNT, make=ramp)


def pictures(batches: Iterable[Batch]) -> dict[int, bytes]:
    """Return each record's picture, having checked that its mask was cut alike."""
    out = {}
    for batch in batches:
        ids, photos, masks = batch["id"], batch["photo"], batch["mask"]
        assert isinstance(ids, torch.Tensor)
        assert isinstance(photos, torch.Tensor)
        assert isinstance(masks, torch.Tensor)
        assert torch.equal(photos, masks)
        out.update(zip(ids.tolist(), [photo.numpy().tobytes() for photo in photos], strict=True))
    return out


def loader(url: str, batch_size: int = 8, **given: object) -> Loader:
    """Load shuffled, with crops."""
    settings: dict[str, object] = {"seed": 3, "num_workers": 0, "image": OPTIONS, **given}
    return Loader(url, batch_size, shuffle=True, **settings)  # type: ignore[arg-type]


def test_each_record_has_its_own_crop_anew_in_each_epoch_and_seed(url: str) -> None:
    """No two of them are equal."""
    reader = loader(url)
    first, second, other = pictures(reader), pictures(reader), pictures(loader(url, seed=4))
    assert len({*first.values(), *second.values(), *other.values()}) == 3 * COUNT


@pytest.mark.parametrize("workers", [1, 3])
def test_crops_are_the_same_for_any_number_of_workers_and_batch_size(url: str, workers: int) -> None:
    """They follow from seed, epoch and record alone, also below a transform."""
    expected = pictures(loader(url))
    assert pictures(loader(url, 50, num_workers=workers)) == expected
    assert pictures(loader(url, num_workers=workers, transform=lambda sample, rng: sample)) == expected  # noqa: ARG005


def test_crops_are_the_same_on_any_number_of_ranks(url: str) -> None:
    """Three ranks see what one sees."""
    parts = [pictures(loader(url, rank=rank, world_size=3)) for rank in range(3)]
    assert parts[0] | parts[1] | parts[2] == pictures(loader(url))


def test_crops_are_the_same_after_a_resume(url: str) -> None:
    """What is left of the second epoch is cut as it would have been."""
    whole = loader(url)
    pictures(whole)
    expected = pictures(whole)
    stopped = loader(url)
    pictures(stopped)
    seen = pictures(feeding.take(stopped, 4))
    resumed = loader(url, 5, num_workers=3)
    resumed.load_state_dict(feeding.saved(stopped))
    rest = pictures(resumed)
    assert len(rest) == COUNT - len(seen)
    assert seen | rest == expected


def test_a_transform_draws_the_same_with_and_without_crops(url: str) -> None:
    """The crop takes nothing from the transform's generator."""

    def noise(sample: dict[str, object], rng: np.random.Generator) -> dict[str, object]:
        return {"id": sample["id"], "noise": rng.random()}

    def drawn(image: ImageOptions | None) -> list[object]:
        return [feeding.plain(batch["noise"]) for batch in loader(url, image=image, transform=noise)]

    assert drawn(OPTIONS) == drawn(None)
