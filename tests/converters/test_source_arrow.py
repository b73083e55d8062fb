"""Test reading Arrow IPC files and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, ipc
from source_contract import Row, SourceContract, check_form, rows_of

from datafeed import Dataset
from datafeed.converters.arrow_files import ArrowFiles
from datafeed.converters.convert import convert
from datafeed.converters.encode import read_chunks
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, ConfigError, EmptySource
from datafeed.schema import Schema

PLAIN = SourceOptions()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def write(path: Path, columns: Mapping[str, object] | pa.Table, rows: int = 2, **options: object) -> None:
    """Write a file, or a stream where the name ends in .ipc, of batches of two rows."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    new = ipc.new_stream if path.suffix == ".ipc" else ipc.new_file
    with new(path, table.schema, options=ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table, rows)


def read(path: Path | str, options: SourceOptions = PLAIN) -> tuple[Schema, list[Row], list[BadItem]]:
    """Read all of a source, with its bad items, checking the form of every column."""
    source, bad = ArrowFiles(str(path), options), []
    schema = source.schema()
    rows: list[Row] = []
    for chunk in read_chunks(source, source.units(), bad.append):
        for feature in schema:
            check_form(feature, chunk.columns[feature.name], chunk.rows)
        rows += rows_of(schema.features, chunk)
    return schema, rows, bad


def by_number(path: Path) -> list[Row]:
    """Return every other row of a file, read by its number."""
    source = ArrowFiles(str(path), PLAIN)
    tables, features = source.tables(), source.schema().features
    assert tables is not None
    chunks = [chunk for one in tables for chunk in source.pick(one.unit, np.arange(0, one.rows, 2), [].append)]
    return [row for chunk in chunks for row in rows_of(features, chunk)]


class TestArrowFiles(SourceContract):
    """Hold a folder of files and streams to what every source promises."""

    def open(self, path: Path) -> ArrowFiles:
        """Open it."""
        return ArrowFiles(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write files and streams of five rows, of none, and of 0 bytes."""
        (folder / "sub").mkdir()
        rows: list[Row] = []
        for number, name in enumerate(["a.arrow", "b.feather", "c.ipc", "sub/d.ipc", "sub/e.arrow"]):
            ids = range(number * 10, number * 10 + 5) if number % 2 else []
            made: list[Row] = [{"id": i, "text": f"é{i}" if i % 3 else None, "few": list(range(i % 4))} for i in ids]
            kinds = {"id": pa.int64(), "text": pa.string(), "few": pa.list_(pa.uint16())}
            write(folder / name, {key: pa.array([row[key] for row in made], kind) for key, kind in kinds.items()})
            rows += made
        (folder / "aa.arrow").touch()
        return rows

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Put a null into a list of the second batch."""
        few = pa.array([[1], [2], [3, None], [4]], pa.list_(pa.uint16()))
        write(folder / "b.feather", {"id": pa.array(range(4)), "text": pa.array(["x"] * 4), "few": few})
        later = [{"id": i, "text": f"é{i}" if i % 3 else None, "few": list(range(i % 4))} for i in range(30, 35)]
        return "b.feather:2", "null in its list", [{"id": i, "text": "x", "few": [i + 1]} for i in (0, 1, 3)] + later


KINDS: list[tuple[pa.DataType, list[object]]] = [
    (pa.int8(), [-128, 127]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.float16(), [1.5, -2.0]),
    (pa.bool_(), [True, False, True]),
    (pa.string(), ["", "🦙", "a\0b"]),
    (pa.large_string(), ["x", "yy"]),
    (pa.string_view(), ["x", "a text of more than twelve bytes"]),
    (pa.binary(), [b"", b"\xff\0"]),
    (pa.binary(2), [b"ab", b"cd"]),
    (pa.dictionary(pa.int8(), pa.string()), ["b", "a", "b"]),
    (pa.list_(pa.int32()), [[1, 2], [], [3]]),
    (pa.large_list(pa.bool_()), [[True], [False, True]]),
    (pa.list_(pa.string()), [["a", ""], [], ["é"]]),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["a", "b"], [], ["a"]]),
    (pa.list_(pa.uint16(), 3), [[1, 2, 65535], [4, 5, 6]]),
    (pa.list_(pa.list_(pa.int16(), 2)), [[[1, 2]], [], [[3, 4], [5, 6]]]),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda value: str(value) if isinstance(value, list) else None)
@pytest.mark.parametrize("name", ["t.arrow", "t.ipc"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_types_come_back_with_their_values(
    tmp_path: Path, kind: pa.DataType, values: list[object], name: str, compression: str | None
) -> None:
    """Of files and streams, packed or not; a column is optional where a null is counted."""
    for given, optional in ((values, False), ([None, *values, None, None], True)):
        write(tmp_path / name, {"x": pa.array(given, kind), "n": range(len(given))}, compression=compression)
        schema, rows, bad = read(tmp_path / name)
        assert [row["x"] for row in rows] == given
        assert [feature.optional for feature in schema] == [optional, False]
        assert not bad
        if compression is None and "view" not in str(kind):
            assert by_number(tmp_path / name) == rows[::2]


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather_files_are_read(tmp_path: Path, compression: str) -> None:
    """As their own library writes them, in batches of its own size."""
    table = pa.table({"x": np.arange(70_000), "t": pa.array(["é", None] * 35_000)})
    feather.write_feather(table, tmp_path / "t.feather", compression=compression, chunksize=30_000)
    _, rows, _ = read(tmp_path)
    assert rows == table.to_pylist()


def test_streams_before_arrow_0_15_are_read(tmp_path: Path) -> None:
    """Their messages begin with a length alone."""
    write(tmp_path / "t.ipc", {"x": [1, 2, 3], "t": ["a", "b", "c"]}, use_legacy_format=True)
    assert read(tmp_path)[1] == [{"x": 1, "t": "a"}, {"x": 2, "t": "b"}, {"x": 3, "t": "c"}]


def test_nulls_are_counted_for_each_leaf(tmp_path: Path) -> None:
    """A field lacks where a struct above it does; what stands after nested columns is not taken for them."""
    place = pa.array([{"x": 1, "far": {"y": 1}}, {"x": 2, "far": None}, {"x": 3, "far": {"y": None}}])
    few = pa.array([[1], [2, 3], []], pa.list_(pa.int8()))
    write(tmp_path / "t.arrow", {"few": few, "place": place, "last": [1, 2, 3]})
    schema, rows, _ = read(tmp_path)
    assert [(f.name, f.optional) for f in schema] == [
        ("few", False), ("place.x", False), ("place.far.y", True), ("last", False),
    ]  # fmt: skip
    assert [row["place.far.y"] for row in rows] == [1, None, None]


def test_a_null_in_a_dictionary_makes_its_rows_lack(tmp_path: Path) -> None:
    """The indices count no null, though a word is one."""
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(["a", None]))
    for name in ("t.arrow", "t.ipc"):
        write(tmp_path / name, {"x": words})
        assert [row["x"] for row in read(tmp_path / name)[1]] == ["a", None, "a"]


@pytest.mark.parametrize("deltas", [{"emit_dictionary_deltas": True}, {}], ids=str)
def test_a_stream_whose_dictionary_changes_is_read_from_any_unit(tmp_path: Path, deltas: dict[str, bool]) -> None:
    """Each unit has the words that stand before it, replaced or added to."""
    options = ipc.IpcWriteOptions(**deltas)
    schema = pa.schema({"x": pa.dictionary(pa.int32(), pa.string()), "pad": pa.binary(2**20)})
    expected = []
    with ipc.new_stream(tmp_path / "t.ipc", schema, options=options) as out:
        for batch in range(4):
            words = [f"{word if deltas else batch}-{word}" for word in range(1 + batch)]
            column = pa.DictionaryArray.from_arrays(pa.array(np.arange(6) % len(words), pa.int32()), pa.array(words))
            out.write_batch(pa.record_batch([column, pa.array([bytes(2**20)] * 6, pa.binary(2**20))], schema=schema))
            expected += [words[row % len(words)] for row in range(6)]
    source = ArrowFiles(str(tmp_path), SourceOptions(columns=("x",)))
    units = source.units()
    assert len(units) == 4
    found: list[object] = []
    for unit in reversed(units):
        chunks = source.read(unit, pytest.fail)
        found = [row["x"] for chunk in chunks for row in rows_of(source.schema().features, chunk)] + found
    assert found == expected
    assert [row["x"] for row in by_number(tmp_path / "t.ipc")] == expected[::2]


@pytest.mark.parametrize("name", ["t.arrow", "t.ipc"])
def test_a_large_batch_is_cut_into_rows(tmp_path: Path, name: str) -> None:
    """Of a local file whose batches are not packed: units are about 8 MB, chunks a few, and nothing is copied."""
    values = np.arange(5 * 2**20)
    write(tmp_path / name, {"x": values}, rows=len(values))
    source = ArrowFiles(str(tmp_path), PLAIN)
    units = source.units()
    assert len(units) > 4
    before = pa.total_allocated_bytes()
    chunks = [chunk for unit in units for chunk in source.read(unit, pytest.fail)]
    assert pa.total_allocated_bytes() - before < 2**20
    assert max(chunk.columns["x"].values.nbytes for chunk in chunks) <= 4 * 2**20
    np.testing.assert_array_equal(np.concatenate([chunk.columns["x"].values for chunk in chunks]), values)
    assert [chunk.where(0) for chunk in chunks[1:2]] == [f"{tmp_path / name}:{chunks[0].rows}"]


def test_files_at_a_url_are_read(tmp_path: Path) -> None:
    """The same samples as from a local copy."""
    memory = fsspec.filesystem("memory")
    columns = {"x": list(range(9)), "t": pa.array(["a", None, "c"] * 3).dictionary_encode()}
    try:
        for name in ("a.arrow", "b.ipc", "c.feather"):
            write(tmp_path / name, columns, compression="zstd" if name == "c.feather" else None)
            memory.pipe(f"/arrow/{name}", (tmp_path / name).read_bytes())
        assert read("memory://arrow")[1] == read(tmp_path)[1]
        assert [row["x"] for row in read("memory://arrow/b.ipc", SourceOptions(columns=("x",)))[1]] == list(range(9))
    finally:
        memory.rm("/arrow", recursive=True)


def test_only_columns_asked_for_are_read(tmp_path: Path) -> None:
    """Others may be of types that no feature holds, share a name, differ between files, or be damaged."""
    odd = pa.array([{"a": 1}, None])
    table = pa.table(
        [[1, 2], pa.array([None, None], pa.decimal128(5, 2)), [5, 6], [7, 8], odd], ["x", "dec", "same", "same", "s"]
    )
    write(tmp_path / "a.arrow", table)
    write(tmp_path / "b.ipc", {"s": odd, "x": [3, 4]})
    schema, rows, bad = read(tmp_path, SourceOptions(columns=("s.a", "x")))
    assert [feature.name for feature in schema] == ["x", "s.a"]
    assert rows == [{"x": 1, "s.a": 1}, {"x": 2, "s.a": None}, {"x": 3, "s.a": 1}, {"x": 4, "s.a": None}]
    assert not bad
    with pytest.raises(ConfigError, match=r"columns: no feature 'y' .*; there are s\.a, x"):
        ArrowFiles(str(tmp_path / "b.ipc"), SourceOptions(columns=("y",))).schema()
    assert ArrowFiles(str(tmp_path), SourceOptions(columns=("x",))).options() == {
        "int64_lists": False, "columns": ["x"],
    }  # fmt: skip


def test_structs_of_images_are_told_by_their_content(tmp_path: Path) -> None:
    """The first bytes of the first rows decide, as in parquet."""
    photo = [{"bytes": PNG, "path": "a.png"}, None]
    write(tmp_path / "t.ipc", {"photo": photo, "sound": [{"bytes": b"RIFF", "path": "a.wav"}] * 2})
    schema, rows, _ = read(tmp_path)
    assert [(f.name, f.media) for f in schema] == [
        ("photo", "image"), ("photo.path", ""), ("sound.bytes", ""), ("sound.path", ""),
    ]  # fmt: skip
    assert [row["photo"] for row in rows] == [PNG, None]


def test_a_column_null_in_one_file_is_read_from_the_others(tmp_path: Path) -> None:
    """Null everywhere it is left out, and noted."""
    write(tmp_path / "a.arrow", {"x": pa.nulls(2), "n": pa.nulls(2)})
    write(tmp_path / "b.arrow", {"x": [[1], [2, 3]], "n": pa.nulls(2)})
    assert [row["x"] for row in read(tmp_path)[1]] == [None, None, [1], [2, 3]]
    assert ArrowFiles(str(tmp_path), PLAIN).notes() == ["left out, as it holds nothing but nulls: n"]


def test_a_converted_file_reads_back_the_same(tmp_path: Path) -> None:
    """From file to dataset."""
    columns = {"id": list(range(8)), "text": ["é", None, "", "d"] * 2, "few": [[1, 2], [], [3], [4]] * 2}
    write(tmp_path / "t.feather", columns, rows=3, compression="lz4")
    convert(tmp_path / "t.feather", tmp_path / "out")
    found: Sequence[Mapping[str, object]] = [Dataset(tmp_path / "out")[row] for row in range(8)]
    for name, values in columns.items():
        plain = [sample[name] for sample in found]
        assert [value.tolist() if isinstance(value, np.ndarray) else value for value in plain] == values, name


def test_files_without_rows_alone_are_an_empty_source(tmp_path: Path) -> None:
    """0 rows, no batch and 0 bytes hold nothing to convert."""
    for name in ("a.arrow", "b.ipc"):
        write(tmp_path / name, {"x": pa.array([], pa.int64())})
    (tmp_path / "c.arrow").touch()
    with pytest.raises(EmptySource, match="no Arrow file has a row"):
        ArrowFiles(str(tmp_path), PLAIN).units()
    (tmp_path / "below").mkdir()
    with pytest.raises(EmptySource, match="no file ends in"):
        ArrowFiles(str(tmp_path / "below"), PLAIN).units()
