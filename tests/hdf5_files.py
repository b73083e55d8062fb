"""Write HDF5 files with h5py, and read them with the source."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from source_contract import Row, check_form, rows_of

from datafeed.converters.encode import read_chunks
from datafeed.converters.hdf5 import Hdf5
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem
from datafeed.schema import Schema

PLAIN = SourceOptions()
TEXT = h5py.string_dtype()


def write(path: Path, /, **sets: object) -> Path:
    """Write data sets, "a__b" as a/b; a value is an array, or what `create_dataset` takes."""
    with h5py.File(path, "w") as file:
        for name, value in sets.items():
            options = value if isinstance(value, dict) else {"data": value}
            file.create_dataset(name.replace("__", "/"), **options)
    return path


def read(path: Path | str, options: SourceOptions = PLAIN) -> tuple[Schema, list[Row], list[BadItem]]:
    """Read all of a source, with its bad items, checking the form of every column."""
    source, bad = Hdf5(str(path), options), []
    schema, rows = source.schema(), []
    for chunk in read_chunks(source, source.units(), bad.append):
        for feature in schema:
            check_form(feature, chunk.columns[feature.name], chunk.rows)
        rows += rows_of(schema.features, chunk)
    return schema, rows, bad


def lists(values: list[list[int]], dtype: str) -> dict[str, object]:
    """Return a data set of lists of any length."""
    data = np.empty(len(values), object)
    data[:] = [np.array(value, dtype) for value in values]
    return {"data": data, "dtype": h5py.vlen_dtype(np.dtype(dtype))}
