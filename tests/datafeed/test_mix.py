"""Check what a mix takes, what it refuses, and what is told of its records."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import feeding
import forms
import mixing
import numpy as np
import pytest

from datafeed import Cache, Dataset, ImageOptions, Loader, Mix
from datafeed.errors import ConfigError, DatasetNotFound, SchemaError, TransformError
from datafeed.mixed import MixedDataset
from datafeed.schema import Schema, stored

OTHER = Schema(
    [stored("text", "utf8"), stored("id", "int64"), stored("tokens", "int32", (8,)), stored("more", "float32")]
)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write three datasets, the last of other features in another order, and one that is empty."""
    folder = tmp_path_factory.mktemp("mix")
    schemas = (forms.SMALL, forms.SMALL, OTHER, forms.SMALL)
    sizes = (40, 30, 20, 0)
    return [mixing.write(folder / str(at), at, size, schemas[at]) for at, size in enumerate(sizes)]


def test_weights_are_exact(urls: list[str]) -> None:
    """As written, and only their proportions count."""
    assert Mix({urls[0]: 0.7, urls[1]: 0.3}).weights == (Fraction(7, 10), Fraction(3, 10))
    assert Mix({urls[0]: 14, urls[1]: 6}).weights == Mix({urls[0]: np.float64(0.07), urls[1]: 0.03}).weights
    assert Mix({urls[0]: Fraction(1, 3), urls[1]: Fraction(2, 3)}).weights == (Fraction(1, 3), Fraction(2, 3))
    assert repr(Mix({"a": 1, "b": 3}, stop=9)) == "Mix({'a': 1/4, 'b': 3/4}, seed=0, run=1, stop=9)"


def test_every_form_of_feature_is_mixed(tmp_path: Path) -> None:
    """Each sample is the one that its dataset has, whatever stands beside it in the batch."""
    sources = [mixing.write(tmp_path / str(at), at, 24, forms.SCHEMA) for at in range(2)]
    read = [Dataset(url) for url in sources]
    options = {"lanes": 4, "num_workers": 0}
    loader = Loader(Mix(dict.fromkeys(sources, 1)), 48, True, **options)  # type: ignore[arg-type]  # noqa: FBT003
    batch = next(iter(loader))
    assert list(batch) == list(next(iter(Loader(sources[0], 2))))
    for row, one in enumerate(batch["id"].tolist()):  # type: ignore[union-attr]
        sample = read[one // mixing.APART][one % mixing.APART]
        assert batch["text"][row] == sample["text"]
        assert feeding.plain(batch["uint16.ragged"][row].numpy()) == feeding.plain(sample["uint16.ragged"])  # type: ignore[union-attr]
        assert feeding.plain(batch["float64.array"][row].numpy()) == feeding.plain(sample["float64.array"])  # type: ignore[union-attr]
        assert bool(batch["maybe.present"][row]) is (sample["maybe"] is not None)
        assert bytes(batch["photo"][row]) == sample["photo"]  # type: ignore[arg-type]


def test_images_of_any_kind_are_mixed(tmp_path: Path) -> None:
    """As they are decoded to one form; encoded ones are views of each dataset's blocks."""
    kinds = {"jpeg": ".jpg", "png": ".png"}
    sources = {}
    for kind, suffix in kinds.items():
        schema = Schema([stored("id", "int64"), stored("image", "bytes", media=f"image/{kind}")])
        make = lambda feature, number, end=suffix: number if feature.name == "id" else forms.encoded(end, number)  # noqa: E731
        sources[forms.write(tmp_path / kind, schema, 10, make=make)] = 1
    loader = Loader(Mix(sources), 20, image=ImageOptions(8), num_workers=0)
    (batch,) = loader
    for number, pixels in zip(batch["id"].tolist(), batch["image"], strict=True):  # type: ignore[union-attr, arg-type]
        assert np.abs(pixels[:, 4, 4].numpy().astype(int) - forms.colour(number)).max() <= 4


def test_other_features_are_refused_by_name(urls: list[str]) -> None:
    """With each difference, and the dataset that has it; the order of features does not matter."""
    with pytest.raises(SchemaError) as refused:
        Loader(Mix({urls[0]: 1, urls[1]: 1, urls[2]: 1}))
    found = str(refused.value)
    assert f"{urls[2]!r} holds other features than {urls[0]!r}" in found
    assert "'tokens' is of dtype 'int32', not 'uint16'" in found
    assert "'more' is there alone" in found
    assert "'text'" not in found
    with pytest.raises(SchemaError, match=r"'more' is not there"):
        Loader(Mix({urls[2]: 1, urls[0]: 1}))


def test_columns_project_to_what_is_shared(urls: list[str]) -> None:
    """In the order asked for."""
    loader = Loader(Mix({urls[0]: 2, urls[2]: 1}), 9, columns=["text", "id"], num_workers=0)
    batch = next(iter(loader))
    assert list(batch) == ["text", "id"]
    assert {number // mixing.APART for number in batch["id"].tolist()} == {0, 2}  # type: ignore[union-attr]
    for number, text in zip(batch["id"].tolist(), batch["text"], strict=True):  # type: ignore[union-attr, arg-type]
        assert text == forms.value(forms.SMALL["text"], number % mixing.APART)
    with pytest.raises(SchemaError, match="no feature 'more'; there are 'id', 'tokens', 'text'"):
        Loader(Mix({urls[2]: 1, urls[0]: 1}), columns=["more"])


def test_samples_have_random_generators_of_their_own(urls: list[str]) -> None:
    """Also those of one record that comes twice in an epoch, and the same for any number of workers."""

    def draw(sample: dict[str, object], rng: np.random.Generator) -> dict[str, object]:
        return {"id": sample["id"], "drawn": rng.integers(2**40)}

    runs = []
    for workers in (0, 2):
        given = {"columns": None, "stop": 150, "transform": draw, "num_workers": workers}
        loader = mixing.make({urls[0]: 1, urls[1]: 2}, **given)  # type: ignore[arg-type]
        runs.append([(i, x) for b in loader for i, x in zip(b["id"].tolist(), b["drawn"].tolist(), strict=True)])  # type: ignore[union-attr]
    assert runs[0] == runs[1]
    assert len({one for one, _ in runs[0]}) == 70
    assert len({drawn for _, drawn in runs[0]}) == 150


def test_an_error_names_the_dataset_and_the_place(urls: list[str]) -> None:
    """Of the record that failed."""

    def fail(sample: dict[str, object], _: np.random.Generator) -> dict[str, object]:
        if sample["id"] == mixing.APART + 28:
            raise ValueError("no")
        return {"id": sample["id"]}

    for mode in mixing.MODES:
        loader = mixing.make({urls[0]: 1, urls[1]: 1}, mode, stop="longest", columns=None, transform=fail)
        with pytest.raises(TransformError, match=re.escape(f"{urls[1]}/shard-000002.tfrecord.zst, block 1, record 3")):
            list(loader)


def test_it_is_a_dataset_by_number(urls: list[str]) -> None:
    """To what looks at `loader.dataset`."""
    loader = mixing.make({urls[0]: 1, urls[1]: 1}, mode=False, stop=50)
    assert len(loader.dataset) == 50  # type: ignore[arg-type]
    assert [sample["id"] for sample in loader.dataset] == feeding.flat(loader)  # type: ignore[index]
    mixed = MixedDataset(Mix({urls[0]: 1, urls[1]: 1}, stop=50))
    assert repr(mixed).startswith("MixedDataset(50 samples an epoch: 25 of Dataset(")
    with pytest.raises(IndexError, match="sample 50 of a mix of 50"):
        mixed[50]


@pytest.mark.parametrize(
    ("weights", "options", "named"),
    [
        ([("a", 1)], {}, r"takes a dict from datasets to weights, found \[\('a', 1\)\]"),
        ({}, {}, "a Mix of no dataset"),
        ({3: 1}, {}, "takes paths, URLs and datafeed.Dataset, found 3"),
        ({"a": 0}, {}, "a weight must be a number above 0, found 0 for 'a'"),
        ({"a": -0.5}, {}, "found -0.5"),
        ({"a": float("nan")}, {}, "found nan"),
        ({"a": float("inf")}, {}, "found inf"),
        ({"a": True}, {}, "found True"),
        ({"a": "1"}, {}, "found '1'"),
        ({"a": 1}, {"stop": "last"}, "stop must be 'first', 'longest' or a number of samples, found 'last'"),
        ({"a": 1}, {"stop": 0}, "stop must be at least 1, found 0"),
        ({"a": 1}, {"stop": 2.5}, "stop must be an integer, found 2.5"),
        ({"a": 1}, {"run": 0}, "run must be at least 1, found 0"),
        ({"a": 1}, {"seed": 0.5}, "seed must be an integer, found 0.5"),
    ],
)
def test_what_is_no_mix_is_refused(weights: object, options: dict[str, object], named: str) -> None:
    """With what was found."""
    with pytest.raises(ConfigError, match=named):
        Mix(weights, **options)  # type: ignore[arg-type]


def test_what_cannot_be_mixed_is_refused(urls: list[str], tmp_path: Path) -> None:
    """With the dataset that is at fault."""
    with pytest.raises(ConfigError, match=r"Dataset\(.*: 0 records .*\) holds no record: leave it out of the mix"):
        Loader(Mix({urls[0]: 1, urls[3]: 1}))
    with pytest.raises(
        ConfigError, match=r"an epoch of 5 samples of this mix would hold none of Dataset\(.*give it more"
    ):
        Loader(Mix({urls[0]: 1000, urls[1]: 1}, stop=5))
    with pytest.raises(ConfigError, match="samples of this mix is too long: give stop= a smaller number"):
        next(iter(Loader(Mix({urls[0]: 1, urls[1]: 1}, stop=10**11), columns=["id"])))
    with pytest.raises(DatasetNotFound):
        Loader(Mix({urls[0]: 1, str(tmp_path): 1}))
    for name, value in (("storage_options", {}), ("cache", Cache(host="1MB"))):
        with pytest.raises(ConfigError, match=f"{name}= belongs to the datasets of this mix, which are open already"):
            Loader(Mix({Dataset(urls[0]): 1}), **{name: value})  # type: ignore[arg-type]
