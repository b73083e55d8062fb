"""Test reading parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from source_contract import Row, SourceContract, check_form, rows_of

from datafeed import Dataset
from datafeed.converters.convert import convert
from datafeed.converters.options import SourceOptions
from datafeed.converters.parquet import Parquet
from datafeed.errors import BadItem, EmptySource, SourceError
from datafeed.schema import Feature, Schema

PLAIN = SourceOptions()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def write(path: Path, columns: Mapping[str, object], group: int = 2, **options: object) -> None:
    """Write a parquet file, two rows a row group."""
    parquet.write_table(pa.table(columns), path, row_group_size=group, **options)


def read(path: Path, options: SourceOptions = PLAIN) -> tuple[Schema, list[Row], list[BadItem]]:
    """Read all of a source, with its bad items, checking the form of every column."""
    source, bad = Parquet(str(path), options), []
    schema = source.schema()
    rows: list[Row] = []
    for unit in source.units():
        for chunk in source.read(unit, bad.append):
            for feature in schema:
                check_form(feature, chunk.columns[feature.name], chunk.rows)
            rows += rows_of(schema.features, chunk)
    return schema, rows, bad


def one(tmp_path: Path, values: Sequence[object], kind: pa.DataType) -> tuple[Feature, list[object]]:
    """Write one column and read it back."""
    write(tmp_path / "t.parquet", {"x": pa.array(values, kind)})
    schema, rows, bad = read(tmp_path / "t.parquet")
    assert not bad
    return schema.features[0], [row["x"] for row in rows]


class TestParquet(SourceContract):
    """Hold a folder of parquet files to what every source promises."""

    def open(self, path: Path) -> Parquet:
        """Open it."""
        return Parquet(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write files without rows first, in the middle and last, two with five rows each, one of 0 bytes."""
        (folder / "sub").mkdir()
        rows: list[Row] = []
        for number, name in enumerate("abcde"):
            ids = range(number * 10, number * 10 + 5) if name in "bd" else []
            made: list[Row] = [{"id": i, "text": f"é{i}" if i % 3 else None, "few": list(range(i % 4))} for i in ids]
            kinds = {"id": pa.int64(), "text": pa.string(), "few": pa.list_(pa.uint16())}
            folded = {key: pa.array([row[key] for row in made], kind) for key, kind in kinds.items()}
            write(folder / ("sub" if name == "d" else ".") / f"{name}.parquet", folded)
            rows += made
        (folder / "aa.parquet").touch()
        return rows

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Put a null into a list of the second row group."""
        few = pa.array([[1], [2], [3, None], [4]], pa.list_(pa.uint16()))
        write(folder / "b.parquet", {"id": pa.array(range(4)), "text": pa.array(["x"] * 4), "few": few})
        later = [{"id": i, "text": f"é{i}" if i % 3 else None, "few": list(range(i % 4))} for i in range(30, 35)]
        return "b.parquet:2", "null in its list", [{"id": i, "text": "x", "few": [i + 1]} for i in (0, 1, 3)] + later


@pytest.mark.parametrize(
    ("kind", "values", "dtype", "shape"),
    [
        (pa.int8(), [-128, 127], "int8", ()),
        (pa.uint64(), [0, 2**64 - 1], "uint64", ()),
        (pa.float16(), [1.5, -2.0], "float16", ()),
        (pa.float32(), [0.25, float("inf")], "float32", ()),
        (pa.float64(), [0.1, -0.0], "float64", ()),
        (pa.bool_(), [True, False, True], "bool", ()),
        (pa.string(), ["", "🦙", "a\0b"], "utf8", ()),
        (pa.large_string(), ["x", "yy"], "utf8", ()),
        (pa.string_view(), ["x", "a text of more than twelve bytes"], "utf8", ()),
        (pa.binary(), [b"", b"\xff\0"], "bytes", ()),
        (pa.binary(2), [b"ab", b"cd"], "bytes", ()),
        (pa.dictionary(pa.int8(), pa.string()), ["b", "a", "b"], "utf8", ()),
        (pa.list_(pa.int32()), [[1, 2], [], [3]], "int32", (None,)),
        (pa.large_list(pa.bool_()), [[True], [False, True]], "bool", (None,)),
        (pa.list_(pa.string()), [["a", ""], [], ["é"]], "utf8", (None,)),
        (pa.list_(pa.uint16(), 3), [[1, 2, 65535], [4, 5, 6]], "uint16", (3,)),
        (pa.list_(pa.string(), 2), [["a", "b"], ["", "d"]], "utf8", (2,)),
        (pa.list_(pa.list_(pa.float32(), 2), 2), [[[1.0, 2.0], [3.0, 4.0]]], "float32", (2, 2)),
        (pa.list_(pa.list_(pa.int16(), 2)), [[[1, 2]], [], [[3, 4], [5, 6]]], "int16", (None, 2)),
    ],
)
def test_types_come_back_with_their_values(
    tmp_path: Path, kind: pa.DataType, values: list[object], dtype: str, shape: tuple[int | None, ...]
) -> None:
    """Whole, and with nulls in between, where the feature becomes optional."""
    feature, found = one(tmp_path, values, kind)
    assert (feature.dtype, feature.shape) == (dtype, shape)
    assert found == values
    assert feature.optional == ([] in values)  # parquet counts an empty list among the nulls
    holed = [None, *values, None, None]
    feature, found = one(tmp_path, holed, kind)
    assert (feature.dtype, feature.shape, feature.optional) == (dtype, shape, True)
    assert found == holed


def test_times_become_integers_in_their_unit(tmp_path: Path) -> None:
    """The Arrow type stands in the media, so that nobody has to guess the unit."""
    for kind, dtype in ((pa.timestamp("us", tz="UTC"), "int64"), (pa.date32(), "int32"), (pa.time64("us"), "int64")):
        feature, found = one(tmp_path, [1, None, 86_399], kind)
        assert (feature.dtype, feature.media) == (dtype, str(kind))
        assert found == [1, None, 86_399]


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(5, 2),
        pa.map_(pa.string(), pa.int8()),
        pa.list_(pa.list_(pa.int8())),
        pa.list_(pa.struct({"a": "int8"})),
    ],
    ids=str,
)
def test_types_without_a_feature_are_refused_by_name(tmp_path: Path, kind: pa.DataType) -> None:
    """The message names file, column and type, and what to do."""
    write(tmp_path / "t.parquet", {"fine": pa.array([1]), "odd": pa.array([None], kind)})
    with pytest.raises(SourceError, match=r"t\.parquet: feature 'odd': .*: (write|cast) it .*, or leave it out"):
        Parquet(str(tmp_path), PLAIN).schema()


def test_structs_are_flattened(tmp_path: Path) -> None:
    """A field is missing where its struct is."""
    values = [{"b": 1, "c": {"d": "x"}}, None, {"b": 3, "c": None}, {"b": 4, "c": {"d": None}}]
    write(tmp_path / "t.parquet", {"a": values, "e.f": [1, 2, 3, 4]})
    schema, rows, _ = read(tmp_path)
    assert [(feature.name, feature.optional) for feature in schema] == [("a.b", True), ("a.c.d", True), ("e.f", False)]
    assert [tuple(row.values()) for row in rows] == [(1, "x", 1), (None, None, 2), (3, None, 3), (4, None, 4)]


def test_image_structs_become_images(tmp_path: Path) -> None:
    """The bytes take the struct's name; a struct of sounds stays as it is; plain columns of images are images too."""
    image = [{"bytes": PNG + bytes([i]), "path": f"{i}.png"} for i in range(3)]
    sound = [{"bytes": b"RIFF", "path": "a.wav"}] * 3
    write(tmp_path / "t.parquet", {"photo": image, "sound": sound, "bare": [PNG] * 3})
    schema, rows, _ = read(tmp_path)
    assert [(feature.name, feature.media) for feature in schema] == [
        ("photo", "image"), ("photo.path", ""), ("sound.bytes", ""), ("sound.path", ""), ("bare", "image"),
    ]  # fmt: skip
    assert [(row["photo"], row["photo.path"]) for row in rows] == [(PNG + bytes([i]), f"{i}.png") for i in range(3)]


def test_a_column_is_optional_only_where_nulls_may_be(tmp_path: Path) -> None:
    """Statistics of no null rule them out; without statistics the schema decides."""
    schema = pa.schema([pa.field("maybe", pa.int64()), pa.field("never", pa.int64(), nullable=False)])
    table = pa.table({"maybe": [1, 2], "never": [3, 4]}, schema=schema)
    parquet.write_table(table, tmp_path / "t.parquet")
    assert [feature.optional for feature in read(tmp_path)[0]] == [False, False]
    parquet.write_table(table, tmp_path / "t.parquet", write_statistics=False)
    assert [feature.optional for feature in read(tmp_path)[0]] == [True, False]


def test_a_column_null_in_one_file_is_read_from_the_others(tmp_path: Path) -> None:
    """Writers give a column of nothing but nulls the type null; null everywhere it is left out, and noted."""
    write(tmp_path / "a.parquet", {"x": pa.nulls(2), "t": pa.nulls(2), "n": pa.nulls(2)})
    write(tmp_path / "b.parquet", {"x": [[1], [2, 3]], "t": ["p", "q"], "n": pa.nulls(2)})
    schema, rows, bad = read(tmp_path)
    assert [(feature.name, feature.optional) for feature in schema] == [("x", True), ("t", True)]
    assert [row["x"] for row in rows] == [None, None, [1], [2, 3]]
    assert [row["t"] for row in rows] == [None, None, "p", "q"]
    assert Parquet(str(tmp_path), PLAIN).notes() == ["left out, as it holds nothing but nulls: n"]
    assert not bad


def test_files_that_differ_are_named(tmp_path: Path) -> None:
    """In a column's type, or in having it."""
    write(tmp_path / "a.parquet", {"x": [1]})
    for columns, text in (
        ({"x": ["1"]}, r"'x' is string in .*b\.parquet and int64"),
        ({"y": [1]}, r"has 'x', .*lacks"),
    ):
        write(tmp_path / "b.parquet", columns)
        with pytest.raises(SourceError, match=text):
            Parquet(str(tmp_path), PLAIN).schema()


def test_f92_files_without_rows_alone_are_an_empty_source(tmp_path: Path) -> None:
    """0 rows, 0 row groups and 0 bytes hold nothing to convert."""
    write(tmp_path / "a.parquet", {"x": pa.array([], pa.int64())})
    parquet.ParquetWriter(tmp_path / "b.parquet", pa.schema({"x": pa.int64()})).close()
    (tmp_path / "c.parquet").touch()
    for need in (Parquet(str(tmp_path), PLAIN).schema, Parquet(str(tmp_path), PLAIN).units):
        with pytest.raises(EmptySource, match="no parquet file has a row"):
            need()


def test_columns_of_nothing_but_nulls_alone_are_refused(tmp_path: Path) -> None:
    """They are left out, and nothing would be left."""
    write(tmp_path / "t.parquet", {"a": pa.nulls(3)})
    with pytest.raises(SourceError, match="hold nothing but nulls"):
        Parquet(str(tmp_path), PLAIN).schema()


@pytest.mark.parametrize("values", [[0, 1, 2, 3], [b"0", b"1", b"2", b"3"]], ids=["numbers", "bytes"])
def test_damaged_files_are_bad_items(tmp_path: Path, values: list[object]) -> None:
    """One without a footer as a whole, one with a damaged page from there on; the others are read.

    The page is among the first values, which tell images.
    """
    for name in "abc":
        write(tmp_path / f"{name}.parquet", {"x": pa.array(values)}, use_dictionary=False, compression="none")
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-20])
    data = bytearray((tmp_path / "b.parquet").read_bytes())
    data[4:30] = bytes([255]) * 26
    (tmp_path / "b.parquet").write_bytes(data)
    source, bad, rows = Parquet(str(tmp_path), PLAIN), [], []
    for unit in source.units():
        try:
            rows += [
                row["x"] for chunk in source.read(unit, bad.append) for row in rows_of(source.schema().features, chunk)
            ]
        except BadItem as exc:
            bad.append(exc)
    assert rows == values[2:] + values
    assert [item.where for item in bad] == [str(tmp_path / "a.parquet"), f"{tmp_path / 'b.parquet'}:0"]


def test_text_that_is_no_utf8_is_a_bad_item(tmp_path: Path) -> None:
    """Parquet says string, nobody checks; the row is named, the others are kept."""
    text = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    write(tmp_path / "t.parquet", {"t": text}, group=3)
    _, rows, bad = read(tmp_path)
    assert rows == [{"t": "a"}, {"t": "c"}]
    assert (bad[0].where, bad[0].reason) == (f"{tmp_path / 't.parquet'}:1", "'t' is text and no UTF-8")
    assert bad[0].data == rb"{'t': b'\xff'}"


def test_names_of_partitions_are_noted(tmp_path: Path) -> None:
    """Their values stand in no file, so that they would be lost in silence."""
    (tmp_path / "day=1").mkdir()
    write(tmp_path / "day=1" / "t.parquet", {"x": [1]})
    assert Parquet(str(tmp_path), PLAIN).notes() == ["in the names of folders only, and not in the samples: day"]


def test_large_row_groups_are_read_in_parts(tmp_path: Path) -> None:
    """A chunk is a few MB, and `where` counts rows of the file."""
    write(tmp_path / "t.parquet", {"x": [bytes(2**20)] * 12}, group=6)
    source = Parquet(str(tmp_path), PLAIN)
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, pytest.fail)]
    assert len(chunks) > 2
    assert all(chunk.columns["x"].values.nbytes <= 5 * 2**20 for chunk in chunks)
    assert [chunk.where(row) for chunk in chunks for row in range(chunk.rows)] == [
        f"{tmp_path / 't.parquet'}:{row}" for row in range(12)
    ]


def test_a_converted_file_reads_back_the_same(tmp_path: Path) -> None:
    """From file to dataset: each form of column, the later parts of a large row group too."""
    columns: dict[str, list[object]] = {
        "id": list(range(8)),
        "text": ["é", None, "", "d"] * 2,
        "words": [["x" * 1000] * 1500] * 4 + [[]] * 4,
        "few": [[1, 2], [], [3], [4]] * 2,
        "pair": [[0.5, -1.0]] * 8,
    }
    kinds = [pa.int64(), pa.string(), pa.list_(pa.string()), pa.list_(pa.uint16()), pa.list_(pa.float32(), 2)]
    table = {name: pa.array(values, kind) for (name, values), kind in zip(columns.items(), kinds, strict=True)}
    place = pa.array([None if i % 3 == 0 else {"x": i, "far": {"y": -i}} for i in range(8)])
    write(tmp_path / "t.parquet", {**table, "place": place}, group=8)
    report = convert(tmp_path / "t.parquet", tmp_path / "out")
    dataset = Dataset(tmp_path / "out")
    assert (report.records, len(dataset)) == (8, 8)
    samples = [dataset[row] for row in range(8)]
    for name, values in columns.items():
        found = [sample[name] for sample in samples]
        assert [value.tolist() if hasattr(value, "tolist") else value for value in found] == values, name
    assert [sample["place.x"] for sample in samples] == [None, 1, 2, None, 4, 5, None, 7]
    assert [sample["place.far.y"] for sample in samples] == [None, -1, -2, None, -4, -5, None, -7]
