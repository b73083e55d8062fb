"""Test the export to parquet, read by pyarrow, by Hugging Face's datasets and by our own source."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import forms
import numpy as np
import pyarrow.parquet as pq
import pytest
from round_trip import rows_of_dataset, rows_of_source

from datafeed.converters.export import ExportOptions, export
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Schema, stored

TIMES = Schema(
    [
        stored("at", "int64", media="timestamp[us, tz=UTC]", optional=True),
        stored("day", "int32", media="date32[day]"),
        stored("label", "int64", classes=("cat", "dog")),
        stored("photo", "bytes", media="image/jpeg"),
    ]
)
PATHS = ("photo.path", "drawing.path")  # of the structs in which datasets keeps images


def _value(feature: Feature, number: int) -> object:
    if feature.numeric:
        return None if feature.optional and number % 3 == 1 else number % 2 if feature.classes else 1000 * number
    return forms.value(feature, number)


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """Return the export of times, classes and images."""
    export(forms.write(tmp_path / "named", TIMES, 40, make=_value), tmp_path / "out", "parquet")
    return tmp_path / "out"


def test_every_form_of_feature_comes_back(tmp_path: Path) -> None:
    """Values, missing ones, shapes and types are those of the dataset."""
    url = forms.write(tmp_path / "all", forms.SCHEMA, 60)
    export(url, tmp_path / "out", "parquet")
    assert rows_of_source(tmp_path / "out", "parquet", PATHS) == rows_of_dataset(url)


def test_pyarrow_reads_types_and_nulls(named: Path, tmp_path: Path) -> None:
    """Times are times, and what is missing is null."""
    table = pq.read_table(named)
    assert [str(table.schema.field(name).type) for name in ("at", "day")] == ["timestamp[us, tz=UTC]", "date32[day]"]
    assert table.column("at").null_count == 13
    assert rows_of_source(named, "parquet", PATHS) == rows_of_dataset(str(tmp_path / "named"))


def test_datasets_reads_classes_and_images(named: Path, hf: ModuleType, tmp_path: Path) -> None:
    """The library takes labels and pictures for what they are."""
    found = hf.load_dataset("parquet", data_files=f"{named}/*.parquet", split="train", cache_dir=str(tmp_path / "hf"))
    assert found.features["label"].names == ["cat", "dog"]
    assert [found[row]["label"] for row in range(4)] == [0, 1, 0, 1]
    assert np.asarray(found[3]["photo"]).shape == (12, 16, 3)


def test_lists_of_size_0_are_refused_by_name(tmp_path: Path) -> None:
    """Before anything is written, with the alternative."""
    url = forms.write(tmp_path / "none", Schema([stored("id", "int64"), stored("no", "float32", (0,))]), 5)
    with pytest.raises(SchemaError, match=r"'no': parquet cannot hold .* --columns id, or export --to tfrecord"):
        export(url, tmp_path / "out", "parquet")
    assert not (tmp_path / "out").exists()
    export(url, tmp_path / "out", "parquet", ExportOptions(columns=("id",)))
    assert pq.read_table(tmp_path / "out").column("id").to_pylist() == list(range(5))
