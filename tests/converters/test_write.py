"""Test writing the samples of a program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numbered import digests
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, TensorDataset

import datafeed
from datafeed.converters.convert import ConvertOptions
from datafeed.dataset import Dataset
from datafeed.errors import BadItem, ConfigError, EmptySource, OutputDiffers, SourceError
from datafeed.schema import Schema, stored

SMALL = ConvertOptions(shard_size=4000, block_size=700)


def samples(count: int) -> Iterator[dict[str, object]]:
    """Yield samples of every form, once."""
    for number in range(count):
        yield {"n": number, "name": f"n{number}", "r": np.arange(number % 4, dtype=np.int16), "f": [0.5] * (number % 3)}


class Squares(TorchDataset[tuple[torch.Tensor, int]]):
    """Give tensors with a label, by number."""

    def __len__(self) -> int:
        return 300

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return torch.full((2, 2), float(number)), number % 10


class Counted(IterableDataset[dict[str, int]]):
    """Give samples one by one, and say how many."""

    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Iterator[dict[str, int]]:
        return iter({"x": number} for number in range(7))


def test_a_generator_is_written_once_from_front_to_back(tmp_path: Path) -> None:
    """Of a length that nobody knows; no sample is lost to the look at the first ones."""
    report = datafeed.write(tmp_path / "d", samples(2500), options=SMALL)
    found = Dataset(tmp_path / "d")[:]
    assert found["n"].tolist() == list(range(2500))
    assert found["name"][2499] == "n2499"
    assert [array.tolist() for array in found["r"][:5]] == [[], [0], [0, 1], [0, 1, 2], []]
    assert (report.records, report.ran_on) == (2500, "inline")


def test_torch_datasets_are_written(tmp_path: Path) -> None:
    """Those by number and those that iterate; tuples have their places as names."""
    datafeed.write(tmp_path / "map", Squares(), options=SMALL)
    assert [(f.name, f.dtype, f.shape) for f in Dataset(tmp_path / "map").schema] == [
        ("0", "float32", (2, 2)),
        ("1", "int64", ()),
    ]
    assert Dataset(tmp_path / "map")[299]["0"].tolist() == [[299.0, 299.0]] * 2
    datafeed.write(tmp_path / "tensors", TensorDataset(torch.arange(6).reshape(3, 2)), options=SMALL)
    assert Dataset(tmp_path / "tensors")[:]["0"].tolist() == [[0, 1], [2, 3], [4, 5]]
    datafeed.write(tmp_path / "iterable", Counted(), options=SMALL)
    assert Dataset(tmp_path / "iterable")[:]["x"].tolist() == list(range(7))


@pytest.mark.usefixtures("ray_workers")
def test_workers_take_samples_by_number(tmp_path: Path) -> None:
    """With the same bytes as this process."""
    datafeed.write(tmp_path / "1", Squares(), options=SMALL)
    two = ConvertOptions(shard_size=4000, block_size=700, workers=2, ray_address="auto")
    report = datafeed.write(tmp_path / "2", Squares(), options=two)
    assert report.records == 300
    assert digests(tmp_path / "1") == digests(tmp_path / "2")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's of itself, as it starts
@pytest.mark.usefixtures("ray_workers")
def test_a_ray_dataset_is_written_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After what Ray itself made of its rows, over several of its blocks."""
    import ray.data

    monkeypatch.setattr(ray.data.DataContext.get_current().execution_options, "preserve_order", True)
    rows = ray.data.range(1000, override_num_blocks=4).map(lambda row: {"id": row["id"], "text": f"n{row['id']}"})
    datafeed.write(tmp_path / "d", rows, options=SMALL)
    found = Dataset(tmp_path / "d")[:]
    assert found["id"].tolist() == list(range(1000))
    assert found["text"] == [f"n{number}" for number in range(1000)]


def test_samples_are_shaped_as_those_of_any_source(tmp_path: Path) -> None:
    """Chosen, renamed, shuffled, limited."""
    options = ConvertOptions(columns=("n",), rename={"n": "id"}, shuffle_all=True, seed=2)
    datafeed.write(tmp_path / "d", samples(500), options=options)
    ids = Dataset(tmp_path / "d")[:]["id"].tolist()
    assert sorted(ids) == list(range(500))
    assert ids != sorted(ids)
    datafeed.write(tmp_path / "few", samples(500), options=ConvertOptions(limit=30))
    assert len(Dataset(tmp_path / "few")) == 30


def test_samples_can_be_appended(tmp_path: Path) -> None:
    """As often as somebody asks, the same ones too."""
    datafeed.write(tmp_path / "d", samples(100), options=SMALL)
    more = ConvertOptions(append=True)
    for _ in range(2):
        datafeed.write(tmp_path / "d", samples(50), options=more)
    assert Dataset(tmp_path / "d")[:]["n"].tolist() == [*range(100), *range(50), *range(50)]


def test_f01_what_was_cut_is_begun_anew(tmp_path: Path) -> None:
    """Nothing tells whether the samples are those of the run before."""

    def cut() -> Iterator[dict[str, bytes]]:
        rng = np.random.default_rng(0)
        for _ in range(450):  # more than the schema is drawn from, with what a worker hands over at once
            yield {"blob": rng.bytes(200_000)}
        raise RuntimeError("cut")

    with pytest.raises(RuntimeError, match="cut"):
        datafeed.write(tmp_path / "d", cut(), options=ConvertOptions(shard_size="1MB"))
    assert list((tmp_path / "d").glob("shard-*"))
    datafeed.write(tmp_path / "d", samples(20), options=SMALL)
    assert len(Dataset(tmp_path / "d")) == 20
    datafeed.write(tmp_path / "e", samples(20), options=SMALL)
    assert digests(tmp_path / "d") == digests(tmp_path / "e")


def test_f06_what_stands_there_is_refused(tmp_path: Path) -> None:
    """A dataset, and files of somebody else."""
    datafeed.write(tmp_path / "d", samples(5), options=SMALL)
    with pytest.raises(OutputDiffers, match="holds a dataset: name another"):
        datafeed.write(tmp_path / "d", samples(5), options=SMALL)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(OutputDiffers, match="is not empty"):
        datafeed.write(tmp_path / "mine", samples(5), options=SMALL)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([], EmptySource, "there is no"),
        (iter(()), EmptySource, "there is no sample"),
        (5, ConfigError, "one by one or by number"),
        ("text", ConfigError, "expected several samples"),
        ({"x": [1]}, ConfigError, "expected several samples"),
        (iter([{"x": 1}, {"x": "a"}]), SourceError, "of another kind or shape"),
        (iter([{1: 2}]), BadItem, "sample 0: expected names that are text"),
    ],
    ids=str,
)
def test_what_holds_no_samples_is_refused(tmp_path: Path, given: object, error: type[Exception], message: str) -> None:
    """With what was found."""
    with pytest.raises(error, match=message):
        datafeed.write(tmp_path / "d", given, options=SMALL)


def test_a_schema_may_be_given(tmp_path: Path) -> None:
    """A sample that does not fit it is a bad item with its number."""
    schema = Schema([stored("x", "uint8")])
    rows = iter([{"x": 1}, {"x": 300}, {"x": 3}])
    report = datafeed.write(tmp_path / "d", rows, schema, ConvertOptions(on_error="skip"))
    assert Dataset(tmp_path / "d")[:]["x"].tolist() == [1, 3]
    assert report.reasons[0].startswith("sample 1: ")
    with pytest.raises(ConfigError, match="kind and split have no effect"):
        datafeed.write(tmp_path / "e", [{"x": 1}], options=ConvertOptions(split="val=0.5"))
