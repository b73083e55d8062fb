"""Test the export to NumPy's files, read by NumPy and by our own source."""

from __future__ import annotations

from pathlib import Path

import forms
import numpy as np
import pytest
from numbered import digests
from round_trip import rows_of_dataset, rows_of_source

from datafeed.converters.export import ExportOptions, export
from datafeed.errors import CorruptData, SchemaError
from datafeed.schema import Schema, stored

SCHEMA = Schema([stored("id", "int64"), stored("x", "float16", (2, 3)), stored("on", "bool")])


@pytest.mark.parametrize("shards", [1, 3])
def test_arrays_come_back(tmp_path: Path, shards: int) -> None:
    """The parts of each array, in order, are the columns, whatever the number of shards."""
    url = forms.write(tmp_path / "in", SCHEMA, 50, shards=shards)
    export(url, tmp_path / "out", "npy")
    parts = [np.load(path) for path in sorted((tmp_path / "out").glob("x*.npy"))]
    assert len(parts) == shards
    assert np.array_equal(np.concatenate(parts), [forms.value(SCHEMA["x"], row) for row in range(50)])
    assert rows_of_source(tmp_path / "out", "numpy") == rows_of_dataset(url)


@pytest.mark.parametrize(
    ("name", "what"),
    [("text", "utf8"), ("int8.ragged", "differs in size"), ("maybe", "may be missing"), ("int8.array", "digits")],
)
def test_what_no_array_holds_is_refused_by_name(tmp_path: Path, name: str, what: str) -> None:
    """Before anything is written, with the alternatives."""
    url = forms.write(tmp_path / "in", forms.SCHEMA, 9)
    with pytest.raises(SchemaError, match=rf"'{name}': npy cannot hold .*{what}.*--columns id, or export --to parquet"):
        export(url, tmp_path / "out", "npy", ExportOptions(columns=("id", name)))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("names", "shards", "what"),
    [
        (("x1", "x2", "y"), 1, "names differ in digits alone"),
        (("x1", "y"), 2, "has digits"),
        (("_x", "y"), 2, "begins with _"),
        (("y_", "y"), 1, "no file's name"),
        (("../y", "y"), 1, "no file's name"),
    ],
)
def test_names_that_would_not_come_back_are_refused(
    tmp_path: Path, names: tuple[str, ...], shards: int, what: str
) -> None:
    """Files named by them would be read as other arrays, or lie elsewhere."""
    url = forms.write(tmp_path / "in", Schema([stored(name, "int32") for name in names]), 8, shards=shards)
    with pytest.raises(SchemaError, match=rf"'{names[0]}': npy cannot hold .*{what}.*--columns y, or"):
        export(url, tmp_path / "out", "npy")


@pytest.mark.parametrize(("names", "shards"), [(("x1", "y2", "_z"), 1), (("a", "A", "a b", "a.b"), 3)])
def test_names_that_come_back(tmp_path: Path, names: tuple[str, ...], shards: int) -> None:
    """Each feature comes back under its name."""
    url = forms.write(tmp_path / "in", Schema([stored(name, "int32", (2,)) for name in names]), 20, shards=shards)
    export(url, tmp_path / "out", "npy")
    assert rows_of_source(tmp_path / "out", "numpy") == rows_of_dataset(url)


def test_damage_leaves_no_half_written_file(tmp_path: Path) -> None:
    """A wrong byte ends the export; no file of its shard appears."""
    url = forms.write(tmp_path / "in", SCHEMA, 50, shards=2)
    shard = Path(url, "shard-000001.tfrecord.zst")
    data = bytearray(shard.read_bytes())
    data[len(data) // 3] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptData, match="shard-000001"):
        export(url, tmp_path / "out", "npy")
    assert [name for name in digests(tmp_path / "out") if "-000001" in name] == []
