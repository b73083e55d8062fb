"""Check that a dataset reads by number, value for value, wherever it is used."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forms
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from datafeed import Dataset
from datafeed.errors import CorruptData, DatasetNotFound, SchemaError, ShardMissing
from datafeed.schema import Feature, Schema, stored

COUNT = 50


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of a few features."""
    return forms.write(tmp_path_factory.mktemp("small"), records=COUNT)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Write a dataset of every form of feature."""
    return Dataset(forms.write(tmp_path_factory.mktemp("full"), forms.SCHEMA, 23))


def test_it_has_a_length_a_schema_and_a_repr(url: str) -> None:
    """All three come from the manifest alone."""
    dataset = Dataset(Path(url))
    assert len(dataset) == COUNT
    assert dataset.schema == forms.SMALL
    assert repr(dataset) == f"Dataset({url!r}: 50 records in 3 shards)"


def test_its_repr_masks_a_password() -> None:
    """A repr ends up in logs."""
    dataset = Dataset(forms.write("memory://me:secret@host/masked", forms.SMALL, 7))
    assert repr(dataset) == "Dataset('memory://me:***@host/masked': 7 records in 3 shards)"


@pytest.mark.parametrize("name", [feature.name for feature in forms.SCHEMA])
def test_a_sample_has_each_value_when_read_by_number(full: Dataset, name: str) -> None:
    """Value, dtype and shape are those that were written; a missing one is None."""
    for number in range(len(full)):
        assert forms.same(full[number][name], forms.value(forms.SCHEMA[name], number))


def test_a_sample_has_the_names_of_the_schema_in_order(full: Dataset) -> None:
    """Nothing is added to a sample."""
    assert list(full[0]) == [feature.name for feature in forms.SCHEMA]


@pytest.mark.parametrize("number", [-1, -COUNT, np.int64(3), np.uint64(4), np.int8(-2)])
def test_negative_and_numpy_numbers_when_asked(url: str, number: int) -> None:
    """They mean what they mean to a list."""
    assert Dataset(url)[number]["id"] == list(range(COUNT))[number]


@pytest.mark.parametrize(
    "key",
    [
        slice(None), slice(3, 40, 7), slice(40, 3, -7), slice(-5, None), slice(10, 10), slice(90, 99),
        slice(None, None, -1),
        [3, 3, -1, 0], (1, 2), range(5, 9), [], np.array([7, -7]), np.array([], np.int64), np.array([1, 2], np.uint8),
    ],
)  # fmt: skip
def test_several_at_once_come_as_columns(url: str, key: object) -> None:
    """A slice, a list or an array gives columns, in the order asked."""
    found = Dataset(url)[key]  # type: ignore[index]
    numbers = np.arange(COUNT)[key if isinstance(key, slice) else np.array(key, np.int64)]
    assert np.array_equal(found["id"], numbers)
    assert found["text"] == [forms.value(forms.SMALL["text"], number) for number in numbers.tolist()]
    assert found["tokens"].shape == (len(numbers), 8)


def test_a_missing_value_is_marked_and_zero_or_nan(full: Dataset) -> None:
    """A column has something in its place."""
    found = full[0:3]
    assert found["maybe.present"].tolist() == [True, False, True]  # type: ignore[union-attr]
    assert found["maybe"][1] == 0
    assert np.isnan(found["maybe_point"][1]).all()
    assert len(found["maybe_ragged"][1]) == 0
    assert (found["maybe_text"][1], found["maybe_words"][1], found["drawing"][1]) == ("", [], b"")


def test_iteration_ends_after_the_last(url: str) -> None:
    """A plain `for` reads every sample."""
    assert [sample["id"] for sample in Dataset(url)] == list(range(COUNT))


@pytest.mark.parametrize(
    "key", [COUNT, -COUNT - 1, 2**70, -(2**70), np.uint64(2**64 - 1), [0, COUNT], np.array([2**64 - 1], np.uint64)]
)
def test_a_number_out_of_range_is_an_index_error(url: str, key: object) -> None:
    """Nothing wraps."""
    with pytest.raises(IndexError, match=r"record -?\d+ of a dataset of 50"):
        Dataset(url)[key]  # type: ignore[index]


@pytest.mark.parametrize(
    "key", [True, np.True_, "0", 1.0, None, [True, False], np.zeros(0, bool), np.ones((2, 2), int), ["a"], [[1]], b"1"]
)
def test_a_key_that_is_no_number_is_refused(url: str, key: object) -> None:
    """A mask or a name would be read as something else."""
    with pytest.raises(TypeError, match="expected an int, a slice or a sequence of ints, found"):
        Dataset(url)[key]  # type: ignore[index]


def test_f59_a_dataset_without_records_is_empty(tmp_path: Path) -> None:
    """It opens, and any number is out of range."""
    dataset = Dataset(forms.write(tmp_path, forms.SCHEMA, 0))
    assert len(dataset) == 0
    assert list(dataset) == []
    assert all(len(column) == 0 for column in dataset[:].values())
    for number in (0, -1):
        with pytest.raises(IndexError):
            dataset[number]


def test_f59_a_dataset_of_one_record(tmp_path: Path) -> None:
    """The first is the last."""
    dataset = Dataset(forms.write(tmp_path, records=1))
    assert dataset[0]["id"] == dataset[-1]["id"] == 0
    with pytest.raises(IndexError):
        dataset[1]


def test_a_raw_folder_is_told_to_convert(tmp_path: Path) -> None:
    """The message names the command."""
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.jpg").write_bytes(b"x")
    with pytest.raises(DatasetNotFound, match="datafeed convert"):
        Dataset(tmp_path)


def test_a_pickled_copy_reads_the_same(full: Dataset) -> None:
    """Before and after use; the copy opens the dataset anew."""
    copy = pickle.loads(pickle.dumps(full))  # noqa: S301
    assert copy[5]["id"] == full[5]["id"] == 5
    assert pickle.loads(pickle.dumps(full))[7]["id"] == 7  # noqa: S301


def test_many_threads_read_one_dataset(url: str) -> None:
    """Each gets its own samples."""
    dataset, rng = Dataset(url), np.random.default_rng(0)
    numbers = rng.integers(0, COUNT, 400).tolist()
    with ThreadPoolExecutor(8) as pool:
        assert [sample["id"] for sample in pool.map(dataset.__getitem__, numbers)] == numbers


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_f60_a_forked_child_reads_while_a_thread_of_the_parent_does(url: str) -> None:
    """The child waits for no lock that a thread of the parent held when it forked."""
    dataset = Dataset(url)
    assert dataset[0]["id"] == 0
    with dataset._recent.lock:
        assert _in_child(dataset) == 0
    assert dataset[1]["id"] == 1


def _in_child(dataset: Dataset) -> int:
    """Read in a forked child; return its exit status."""
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        try:
            os._exit(0 if [dataset[i]["id"] for i in range(0, COUNT, 9)] == list(range(0, COUNT, 9)) else 1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_it_is_a_map_dataset_to_torch(url: str, workers: int) -> None:
    """The DataLoader of torch collates its samples, in its worker processes too."""
    context = multiprocessing.get_context("fork") if workers else None
    loader = DataLoader(Dataset(url), batch_size=8, num_workers=workers, multiprocessing_context=context)  # type: ignore[arg-type]
    batches = list(loader)
    assert torch.equal(torch.cat([batch["id"] for batch in batches]), torch.arange(COUNT))
    assert batches[0]["tokens"].dtype == torch.uint16
    assert [text for batch in batches for text in batch["text"]] == Dataset(url)[:]["text"]


def test_f45_a_damaged_block_is_named(tmp_path: Path) -> None:
    """Others are still read."""
    dataset = Dataset(forms.write(tmp_path, records=COUNT))
    shard = tmp_path / dataset.manifest.shards[1].name
    data = bytearray(shard.read_bytes())
    data[int(dataset.index.offset[4]) + 30] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptData, match=r"shard-000001\.tfrecord\.zst, block 1"):
        dataset[26]
    assert dataset[33]["id"] == 33


def test_f37_a_shard_that_is_gone_is_named(tmp_path: Path) -> None:
    """The others are still read."""
    dataset = Dataset(forms.write(tmp_path, records=COUNT))
    (tmp_path / "shard-000002.tfrecord.zst").unlink()
    assert dataset[0]["id"] == 0
    with pytest.raises(ShardMissing, match="shard-000002"):
        dataset[COUNT - 1]


def test_f58_text_that_is_not_utf8_is_named_with_its_place(tmp_path: Path) -> None:
    """The place is that of the record; samples beside it are read."""
    dataset = Dataset(forms.write(tmp_path, forms.SMALL, 30, make=_latin))
    for key in (25, slice(20, 30), [25, 3]):
        with pytest.raises(
            SchemaError, match=r"'text': .*/shard-000002.tfrecord.zst, block 0, record 5: expected UTF-8"
        ):
            dataset[key]  # type: ignore[call-overload]
    assert dataset[24]["text"] == forms.value(forms.SMALL["text"], 24)


def _latin(feature: Feature, number: int) -> object:
    return b"caf\xe9" if feature.name == "text" and number == 25 else forms.value(feature, number)


def test_f58_a_record_without_a_feature_is_named_with_its_place(tmp_path: Path) -> None:
    """A schema that promises what a record lacks is found out at that record."""
    written = Schema([stored("id", "int64"), stored("tokens", "uint16", (8,)), stored("text", "utf8", optional=True)])
    dataset = Dataset(forms.write(tmp_path, written, 30, promised=forms.SMALL))
    assert dataset[0]["id"] == 0
    with pytest.raises(SchemaError, match=r"'text': .*/shard-000000.tfrecord.zst, block 0, record 1: "):
        dataset[1]
