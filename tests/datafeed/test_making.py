"""Check what a batch is made of: columns, images, transforms, and the errors of each."""

from __future__ import annotations

from pathlib import Path

import feeding
import forms
import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from datafeed import Dataset, ImageOptions, Loader
from datafeed.errors import CorruptData, SchemaError, ShardMissing, TransformError
from datafeed.schema import Feature, Schema, stored

COUNT = 70
Sample = dict[str, object]
Rng = np.random.Generator


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of a few features."""
    return forms.write(tmp_path_factory.mktemp("small"), records=COUNT)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of images, some of them missing."""
    return forms.write(tmp_path_factory.mktemp("images"), forms.IMAGES, COUNT)


def same(sample: Sample, rng: Rng) -> Sample:  # noqa: ARG001
    """Change nothing."""
    return sample


def noisy(sample: Sample, rng: Rng) -> Sample:
    """Add to each sample what its generator draws."""
    return {"id": sample["id"], "noise": rng.random(3), "flip": bool(rng.integers(2))}


def test_images_are_bytes_unless_asked(images: str) -> None:
    """They come as they were written."""
    batch = next(iter(Loader(images, 4, num_workers=0)))
    assert batch["photo"] == [forms.encoded(".jpg", number) for number in range(4)]
    assert batch["drawing"][1] == b""  # type: ignore[index]


@pytest.mark.parametrize("workers", [0, 3])
def test_images_are_decoded_and_resized_when_asked(images: str, workers: int) -> None:
    """Each row is its own image: (batch, 3, height, width), red first; a missing one is black and marked."""
    for batch in Loader(images, 40, shuffle=True, num_workers=workers, image=ImageOptions((6, 9))):
        assert list(batch) == ["id", "photo", "drawing", "drawing.present"]
        numbers = batch["id"].tolist()  # type: ignore[union-attr]
        for name in ("photo", "drawing"):
            pixels = batch[name]
            assert isinstance(pixels, torch.Tensor)
            assert (pixels.dtype, pixels.shape) == (torch.uint8, (len(numbers), 3, 6, 9))
            assert pixels.is_contiguous(memory_format=torch.channels_last)
            for row, number in enumerate(numbers):
                missing = name == "drawing" and number % 3 == 1
                expected = (0, 0, 0) if missing else forms.colour(number)
                assert (pixels[row].float().mean((1, 2)) - torch.tensor(expected)).abs().max() < 3
        assert batch["drawing.present"].tolist() == [number % 3 != 1 for number in numbers]  # type: ignore[union-attr]


def test_a_transform_gets_decoded_images(images: str) -> None:
    """As (3, height, width) tensors, None where missing; what it returns is collated."""

    def look(sample: Sample, rng: Rng) -> Sample:  # noqa: ARG001
        photo, drawing = sample["photo"], sample["drawing"]
        assert isinstance(photo, torch.Tensor)
        return {"id": sample["id"], "mean": photo.float().mean((1, 2)), "none": drawing is None}

    batch = next(iter(Loader(images, 40, num_workers=2, image=ImageOptions(8), transform=look)))
    assert (batch["mean"][7] - torch.tensor(forms.colour(7))).abs().max() < 3  # type: ignore[operator, index]
    assert batch["none"].tolist() == [number % 3 == 1 for number in range(40)]  # type: ignore[union-attr]


@pytest.mark.parametrize("position", [0, 45, 69])
def test_a_damaged_image_is_named_with_its_place(tmp_path: Path, position: int) -> None:
    """Its feature too; the batches before it come."""

    def cut(feature: Feature, number: int) -> object:
        value = forms.value(feature, number)
        return value[:20] if feature.name == "photo" and number == position else value  # type: ignore[index]

    url = forms.write(tmp_path, forms.IMAGES, COUNT, make=cut)
    iterator = iter(Loader(url, 10, num_workers=2, image=ImageOptions(8)))
    assert [len(next(iterator)["photo"]) for _ in range(position // 10)] == [10] * (position // 10)
    block, row = divmod(position % 24, 7)
    place = (
        rf"shard-00000{position // 24}\.tfrecord\.zst, block {block}, record {row}: feature 'photo': expected a JPEG"
    )
    with pytest.raises(CorruptData, match=place):
        next(iterator)


def test_a_transform_that_changes_nothing_gives_the_same_batch(tmp_path: Path) -> None:
    """Every dtype, scalar or array, is collated to what it is without a transform."""
    fixed = Schema([feature for feature in forms.SCHEMA if not feature.ragged and not feature.optional])
    url = forms.write(tmp_path, Schema([feature for feature in fixed if feature.name != "blobs"]), 20)
    without, with_one = (next(iter(Loader(url, 20, num_workers=0, transform=how))) for how in (None, same))
    assert feeding.plain(with_one) == feeding.plain(without)


def test_a_transforms_results_are_collated_as_torch_does(url: str) -> None:
    """Nested ones too."""

    def nested(sample: Sample, rng: Rng) -> Sample:
        return {"a": {"b": sample["tokens"], "c": (1.5, "x")}, "d": rng is not None}

    found = next(iter(Loader(url, 6, num_workers=1, transform=nested)))
    tokens = Dataset(url)[:6]["tokens"]
    expected = default_collate([{"a": {"b": row, "c": (1.5, "x")}, "d": True} for row in tokens])
    assert feeding.plain(found) == feeding.plain(expected)


@pytest.mark.parametrize("workers", [0, 2, 5])
def test_the_generator_is_the_same_for_any_number_of_workers(url: str, workers: int) -> None:
    """It follows from the seed, the epoch and the record alone: also for another batch size and a resumed run."""

    def run(seed: int = 1, batch_size: int = 8, workers: int = workers) -> Loader:
        return Loader(url, batch_size, shuffle=True, num_workers=workers, seed=seed, transform=noisy)

    def drawn(loader: Loader) -> dict[int, object]:
        return {
            number: (batch["noise"][row].tolist(), batch["flip"][row].item())  # type: ignore[index, union-attr]
            for batch in loader
            for row, number in enumerate(batch["id"].tolist())  # type: ignore[union-attr]
        }

    loader = run()
    first, second = drawn(loader), drawn(loader)
    assert len({str(draw) for draw in [*first.values(), *second.values()]}) == 2 * COUNT
    assert drawn(run(workers=1, batch_size=33)) == first
    assert drawn(run(seed=2)) != first
    loader.set_epoch(0)
    feeding.take(loader, 3)
    again = run()
    again.load_state_dict(feeding.saved(loader))
    assert drawn(again).items() <= first.items()
    assert drawn(again) == second


@pytest.mark.parametrize("workers", [0, 2])
def test_f72_a_transform_that_raises_is_named_with_its_sample(url: str, workers: int) -> None:
    """The batches before it come; its own exception is the cause, with its traceback."""

    def divide(sample: Sample, rng: Rng) -> Sample:  # noqa: ARG001
        return {"id": sample["id"], "x": 1 // (int(sample["id"]) - 30)}  # type: ignore[call-overload]

    iterator = iter(Loader(url, 8, num_workers=workers, transform=divide))
    assert [len(next(iterator)["id"]) for _ in range(3)] == [8, 8, 8]
    place = r"failed on .*/shard-000001\.tfrecord\.zst, block 0, record 6: ZeroDivisionError"
    with pytest.raises(TransformError, match=place) as caught:
        next(iterator)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.__cause__.__traceback__.tb_next.tb_frame.f_code.co_name == "divide"  # type: ignore[union-attr]


def _odd_keys(sample: Sample, rng: Rng) -> Sample:  # noqa: ARG001
    return {"id": sample["id"]} if sample["id"] != 5 else {"id": 1, "more": 2}


def _nothing(sample: Sample, rng: Rng) -> Sample:  # noqa: ARG001
    return None  # type: ignore[return-value]


def _odd_shapes(sample: Sample, rng: Rng) -> Sample:  # noqa: ARG001
    return {"x": np.zeros(int(sample["id"]))}  # type: ignore[call-overload]


def _missing(sample: Sample, rng: Rng) -> Sample:  # noqa: ARG001
    return {"y": None}


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            _odd_keys,
            r"must return the keys \['id'\] .* found \['id', 'more'\] for .*/shard-000000\..*, block 0, record 5",
        ),
        (_nothing, r"must return a dict, found None for .*/shard-000000\.tfrecord\.zst, block 0, record 0"),
        (_odd_shapes, r"'x' does not make a batch: stack expects each tensor to be equal size.* or leave it out"),
        (_missing, r"'y' does not make a batch: "),
    ],
)
def test_f72_a_transform_that_returns_what_makes_no_batch_is_told(url: str, transform: object, message: str) -> None:
    """Key and place are named."""
    with pytest.raises(TransformError, match=message):
        list(Loader(url, 8, num_workers=1, transform=transform))  # type: ignore[arg-type]


@pytest.mark.parametrize("transform", [None, same])
def test_f58_text_that_is_not_utf8_is_named_with_its_place(tmp_path: Path, transform: object) -> None:
    """With a transform and without."""

    def latin(feature: Feature, number: int) -> object:
        return b"caf\xe9" if feature.name == "text" and number == 25 else forms.value(feature, number)

    loader = Loader(forms.write(tmp_path, records=30, make=latin), 12, num_workers=1, transform=transform)  # type: ignore[arg-type]
    iterator = iter(loader)
    assert len(next(iterator)) == len(next(iterator)) == 3
    with pytest.raises(SchemaError, match=r"'text': .*/shard-000002\.tfrecord\.zst, block 0, record 5: expected UTF-8"):
        next(iterator)


def test_f58_a_record_without_a_feature_is_named_with_its_place(tmp_path: Path) -> None:
    """A schema that promises what a record lacks is found out at that record's batch."""
    written = Schema([stored("id", "int64"), stored("tokens", "uint16", (8,)), stored("text", "utf8", optional=True)])
    url = forms.write(tmp_path, written, 30, promised=forms.SMALL)
    with pytest.raises(SchemaError, match=r"'text': .*/shard-000000\.tfrecord\.zst, block 0, record 1: "):
        list(Loader(url, 5, num_workers=1))
    assert feeding.flat(Loader(url, 5, num_workers=1, columns=["id"])) == list(range(30))


@pytest.mark.parametrize("workers", [0, 2])
def test_f45_a_damaged_block_is_named_after_the_batches_before_it(tmp_path: Path, workers: int) -> None:
    """No wrong byte is handed out; the iterator ends there, and the state stands before the damage."""
    url = forms.write(tmp_path, records=COUNT)
    dataset = Dataset(url)
    shard = tmp_path / dataset.manifest.shards[1].name
    data = bytearray(shard.read_bytes())
    data[int(dataset.index.offset[5]) + 30] ^= 1  # records 31 to 37
    shard.write_bytes(data)
    loader = Loader(url, 8, num_workers=workers)
    iterator = iter(loader)
    assert feeding.flat(next(iterator) for _ in range(3)) == list(range(24))
    with pytest.raises(CorruptData, match=r"shard-000001\.tfrecord\.zst, block 1"):
        next(iterator)
    assert loader.state_dict()["position"] == 24


@pytest.mark.parametrize("workers", [0, 2])
def test_f37_a_shard_deleted_mid_epoch_is_named(tmp_path: Path, workers: int) -> None:
    """The batches before it come."""
    url = forms.write(tmp_path, records=COUNT)
    loader = Loader(url, 8, num_workers=workers)
    assert len(loader.dataset.source.index) == 12  # type: ignore[attr-defined]  # opened
    (tmp_path / "shard-000002.tfrecord.zst").unlink()
    iterator = iter(loader)
    found = feeding.flat(next(iterator) for _ in range(6))
    assert found == list(range(48))
    with pytest.raises(ShardMissing, match="shard-000002"):
        next(iterator)
