"""Test that raw data converted and exported holds the samples that it held, and again after a second turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import forms
import numpy as np
import pytest
from round_trip import rows_of_dataset, rows_of_source
from tars import array, put

import datafeed
from datafeed.schema import Schema, stored

_SCHEMA = Schema([stored("id", "int64"), stored("x", "float32", (3,)), stored("text", "utf8")])


def _csv(folder: Path) -> None:
    lines = [f"{number},{number / 3!r},né {number}" for number in range(50)]
    (folder / "a.csv").write_text("\n".join(["id,share,text", *lines]) + "\n")


def _npy(folder: Path) -> None:
    np.save(folder / "x.npy", np.arange(60, dtype=np.int16).reshape(20, 3))
    np.save(folder / "y.npy", np.linspace(0, 1, 20))


def _tar(folder: Path) -> None:
    members = [
        member for i in range(9) for member in ((f"{i}.jpg", forms.encoded(".jpg", i)), (f"{i}.npy", array([i, 0.5])))
    ]
    put(folder / "a.tar", *members)


def _exported(to: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        url = forms.write(folder.parent / "made", _SCHEMA, 30)
        datafeed.export(url, folder, to)

    return write


@pytest.mark.parametrize(
    ("write", "to"),
    [
        (_csv, "parquet"),
        (_npy, "npy"),
        (_tar, "webdataset"),
        (_exported("tfrecord"), "tfrecord"),
        (_exported("mds"), "mds"),
    ],
    ids=["csv-parquet", "npy-npy", "webdataset-webdataset", "tfrecord-tfrecord", "mds-mds"],
)
def test_samples_come_back(write: Callable[[Path], None], to: str, tmp_path: Path) -> None:
    """Values, types and order are the same in the raw data, the dataset and the export."""
    raw, dataset, out = (tmp_path / name for name in ("raw", "dataset", "out"))
    raw.mkdir()
    write(raw)
    datafeed.convert(str(raw), str(dataset), datafeed.ConvertOptions(workers=1, shuffle=False))
    datafeed.export(dataset, out, to)
    expected = rows_of_source(raw)
    assert len(expected) > 5
    assert rows_of_dataset(str(dataset)) == expected
    assert rows_of_source(out) == expected
