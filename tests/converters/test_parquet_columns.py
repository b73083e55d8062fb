"""Test parquet files whose columns differ, or are of types that no feature holds."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from source_contract import Row, rows_of

from datafeed.converters.encode import read_chunks
from datafeed.converters.options import SourceOptions
from datafeed.converters.parquet import Parquet
from datafeed.errors import BadItem, ConfigError, SourceError

PLAIN = SourceOptions()


def read(path: Path | str, *columns: str) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, or the columns named, with its bad items."""
    source, bad = Parquet(str(path), SourceOptions(columns=columns)), []
    features = source.schema().features
    return [row for chunk in read_chunks(source, source.units(), bad.append) for row in rows_of(features, chunk)], bad


def wide(path: Path, changes: Mapping[str, pa.Array | None]) -> None:
    """Write a file of 100 columns, some of them of other types, or left out."""
    columns: dict[str, pa.Array | None] = {f"c{number:02}": pa.array([number, None]) for number in range(100)}
    kept = {name: column for name, column in {**columns, **changes}.items() if column is not None}
    parquet.write_table(pa.table(kept), path, row_group_size=1)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"c57": pa.array(["a", "b"])}, r"'c57' is string in .*b\.parquet and int64 in .*a\.parquet: cast one"),
        ({"c57": pa.array([1.0, 2.0]), "c58": pa.array([1, 2], pa.int8())}, r"'c57' is double .*; 1 more differ: c58"),
        ({"c57": pa.array([1, 2], pa.timestamp("us"))}, r"'c57' is timestamp\[us\] in .*b\.parquet and int64"),
        ({"c57": pa.array([[1], [2]])}, r"'c57' is list<element: int64> in .*b\.parquet and int64"),
        ({"c57": None}, r"a\.parquet has 'c57', .*b\.parquet lacks it: convert"),
        ({"c57": None, "c03": None}, r"a\.parquet has 'c03', .*b\.parquet lacks it; 1 more differ: c57"),
        ({"new": pa.array([1, 2])}, r"b\.parquet has 'new', .*a\.parquet lacks it"),
    ],
    ids=str,
)
def test_a_column_that_differs_among_a_hundred_is_named(
    tmp_path: Path, changes: dict[str, pa.Array | None], text: str
) -> None:
    """With the files that differ; the others can be converted without it."""
    wide(tmp_path / "a.parquet", {})
    wide(tmp_path / "b.parquet", changes)
    with pytest.raises(SourceError, match=text):
        Parquet(str(tmp_path), PLAIN).schema()
    assert read(tmp_path, "c01", "c99") == ([{"c01": 1, "c99": 99}, {"c01": None, "c99": None}] * 2, [])


def test_layouts_of_one_meaning_do_not_differ(tmp_path: Path) -> None:
    """Writers choose dictionaries, large offsets and names of items; what a reader gets is the same."""
    texts = (["a", "b"], pa.large_string()), (["c", "d"], pa.dictionary(pa.int8(), pa.string())), (["e"], pa.string())
    for number, (values, kind) in enumerate(texts):
        item = pa.field("item" if number else "element", pa.int32(), nullable=not number)
        lists = pa.array([[number]] * len(values), pa.list_(item))
        table = pa.table({"t": pa.array(values, kind), "l": lists})
        parquet.write_table(table, tmp_path / f"{number}.parquet", use_compliant_nested_type=False)
    rows, bad = read(tmp_path)
    assert [row["t"] for row in rows] == list("abcde")
    assert [row["l"] for row in rows] == [[0], [0], [1], [1], [2]]
    assert not bad


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        (
            [Decimal("1.50"), None],
            pa.decimal128(5, 2),
            r"decimal128\(5, 2\): cast it to float64 or string, or",
        ),
        ([Decimal("1.50"), None], pa.decimal256(50, 2), r"decimal256\(50, 2\): cast it to float64 or string"),
        ([[("k", 1)], None], pa.map_(pa.string(), pa.int8()), "map<string, int8.*>: write it as text, or leave it out"),
        ([[{"a": 1}], []], pa.list_(pa.struct({"a": pa.int8()})), "list<element: struct<a: int8>>: write it as text"),
        ([[[1], []], None], pa.list_(pa.list_(pa.int8())), "list<element: list<element: int8>>: write it as text"),
        ([{"in": [{"a": 1}]}, None], pa.struct({"in": pa.list_(pa.struct({"a": pa.int8()}))}), "'odd.in': no feature"),
    ],
    ids=str,
)
def test_a_column_that_no_feature_holds_stops_nothing_where_it_is_left_out(
    tmp_path: Path, values: list[object], kind: pa.DataType, text: str
) -> None:
    """It is refused by name, with the ways out; the columns asked for are read without it."""
    table = pa.table({"x": [1, 2], "odd": pa.array(values, kind), "y": ["a", None]})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(SourceError, match=text):
        Parquet(str(tmp_path), PLAIN).schema()
    name = "odd.in" if pa.types.is_struct(kind) else "odd"
    assert read(tmp_path, "y", "x") == ([{"x": 1, "y": "a"}, {"x": 2, "y": None}], [])
    with pytest.raises(SourceError, match=f"feature '{name}': no feature holds"):
        Parquet(str(tmp_path), SourceOptions(columns=("x", name))).schema()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "+05:30"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_timestamps_keep_their_zone(tmp_path: Path, zone: str, unit: str) -> None:
    """They count from 1970 in UTC; the media says unit and zone."""
    kind = pa.timestamp(unit, tz=zone)
    parquet.write_table(pa.table({"t": pa.array([0, None, -1, 2**60], kind)}), tmp_path / "t.parquet")
    source = Parquet(str(tmp_path), PLAIN)
    assert [(f.dtype, f.media) for f in source.schema()] == [("int64", f"timestamp[{unit}, tz={zone}]")]
    assert [row["t"] for row in read(tmp_path)[0]] == [0, None, -1, 2**60]


def test_columns_not_asked_for_are_not_read(tmp_path: Path) -> None:
    """So a damaged page of another column does no harm, and of a struct only the field is read."""
    table = pa.table({"x": np.arange(4), "big": np.arange(4) + 7, "s": [{"a": i, "b": 2 * i} for i in range(4)]})
    parquet.write_table(table, tmp_path / "t.parquet", use_dictionary=False, compression="none")
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    groups = parquet.read_metadata(tmp_path / "t.parquet").row_group(0)
    for number in (1, 3):
        start = groups.column(number).data_page_offset
        data[start : start + 24] = bytes([255]) * 24
    (tmp_path / "t.parquet").write_bytes(data)
    assert read(tmp_path, "x", "s.a") == ([{"x": i, "s.a": i} for i in range(4)], [])
    assert [item.where for item in read(tmp_path, "x", "s.b")[1]] == [f"{tmp_path / 't.parquet'}:0"]


def test_columns_that_share_a_name_stop_nothing_where_they_are_left_out(tmp_path: Path) -> None:
    """Asked for, the file is a bad item."""
    parquet.write_table(pa.table([[1], [2], [3]], ["x", "y", "y"]), tmp_path / "t.parquet")
    assert read(tmp_path, "x") == ([{"x": 1}], [])
    with pytest.raises(SourceError, match="two of its columns share the name 'y'"):
        Parquet(str(tmp_path), SourceOptions(columns=("y",))).schema()


def test_an_image_is_asked_for_by_its_name(tmp_path: Path) -> None:
    """That of the struct; the name of its bytes is none, unless they are no images."""
    png = b"\x89PNG\r\n\x1a\n" + bytes(20)
    photo = [{"bytes": png, "path": "a"}]
    parquet.write_table(pa.table({"photo": photo, "raw": [{"bytes": b"x", "path": "b"}]}), tmp_path / "t.parquet")
    assert read(tmp_path, "photo", "raw.bytes")[0] == [{"photo": png, "raw.bytes": b"x"}]
    assert read(tmp_path, "photo.path")[0] == [{"photo.path": "a"}]
    for name in ("photo.bytes", "raw", "gone"):
        with pytest.raises(ConfigError, match=f"columns: no feature '{name}'"):
            Parquet(str(tmp_path), SourceOptions(columns=("photo", name))).schema()
    with pytest.raises(ConfigError, match="columns: no feature 'gone'"):  # of no bytes at all
        Parquet(str(tmp_path), SourceOptions(columns=("gone",))).schema()


def test_the_columns_asked_for_stand_in_the_options(tmp_path: Path) -> None:
    """They shape the output; none asked for are not mentioned."""
    parquet.write_table(pa.table({"x": [1], "y": [2]}), tmp_path / "t.parquet")
    assert Parquet(str(tmp_path), PLAIN).options() == {"int64_lists": False}
    asked = Parquet(str(tmp_path), SourceOptions(columns=("y",)))
    assert asked.options() == {"int64_lists": False, "columns": ["y"]}
    assert asked.units()[0].nbytes < Parquet(str(tmp_path), PLAIN).units()[0].nbytes


def test_files_at_a_url_are_read(tmp_path: Path) -> None:
    """The same samples as from a local copy."""
    table = pa.table({"x": list(range(9)), "t": ["a", None, "c"] * 3, "s": [{"a": [i]} for i in range(9)]})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=4)
    memory = fsspec.filesystem("memory")
    try:
        memory.pipe("/pq/t.parquet", (tmp_path / "t.parquet").read_bytes())
        assert read("memory://pq") == read(tmp_path) == ([
            {"x": i, "t": ["a", None, "c"][i % 3], "s.a": [i]} for i in range(9)
        ], [])  # fmt: skip
        assert read("memory://pq/t.parquet", "s.a")[0] == [{"s.a": [i]} for i in range(9)]
    finally:
        memory.rm("/pq", recursive=True)
