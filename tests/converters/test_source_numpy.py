"""Test reading NumPy's files."""

from __future__ import annotations

import itertools
from pathlib import Path

import fsspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from source_contract import Row, SourceContract, check_form, rows_of

from datafeed import Dataset
from datafeed.converters import numpy_files
from datafeed.converters.convert import convert
from datafeed.converters.detect import open_source
from datafeed.converters.encode import read_chunks
from datafeed.converters.numpy_files import NumpyFiles
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, ConfigError, EmptySource, SourceError
from datafeed.schema import Feature, Schema

PLAIN = SourceOptions()


def read(path: Path | str, options: SourceOptions = PLAIN) -> tuple[Schema, list[Row], list[BadItem]]:
    """Read all of a source, with its bad items, checking the form of every column."""
    source, bad = NumpyFiles(str(path), options), []
    schema, rows = source.schema(), []
    for chunk in read_chunks(source, source.units(), bad.append):
        for feature in schema:
            check_form(feature, chunk.columns[feature.name], chunk.rows)
        rows += rows_of(schema.features, chunk)
    return schema, rows, bad


def one(tmp_path: Path, array: np.ndarray) -> tuple[Feature, list[object]]:
    """Write one array and read it back."""
    np.save(tmp_path / "t.npy", array)
    schema, rows, bad = read(tmp_path / "t.npy")
    assert not bad
    assert [feature.name for feature in schema] == ["data"]
    return schema["data"], [row["data"] for row in rows]


def refuse(item: BadItem) -> None:
    """Raise what is bad."""
    raise item


class TestParts(SourceContract):
    """Hold files that are parts of one array to what every source promises."""

    def open(self, path: Path) -> NumpyFiles:
        """Open it."""
        return NumpyFiles(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write parts without rows first and last, one of 0 bytes, others in any order and byte order."""
        np.save(folder / "part-0.npy", np.zeros((0, 3), np.int16))
        np.save(folder / "part-1.npy", np.arange(12, dtype=np.int16).reshape(4, 3))
        np.save(folder / "part-2.npy", np.asfortranarray(np.arange(12, 18, dtype=">i2").reshape(2, 3)))
        (folder / "part-3.npy").touch()
        np.save(folder / "part-4.npy", np.zeros((0, 3), np.int16))
        return [{"data": [row, row + 1, row + 2]} for row in range(0, 18, 3)]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Cut one part short."""
        data = (folder / "part-1.npy").read_bytes()
        (folder / "part-1.npy").write_bytes(data[:-1])
        return "part-1.npy", "it is cut short: int16 of shape (4, 3)", [{"data": [12, 13, 14]}, {"data": [15, 16, 17]}]


class TestArchives(SourceContract):
    """Hold .npz files, plain and compressed, to what every source promises."""

    def open(self, path: Path) -> NumpyFiles:
        """Open it."""
        return NumpyFiles(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write three files, one without rows."""
        x, y = np.arange(10).reshape(5, 2), np.array(["a", "é", "", "d", "🦙"])
        np.savez(folder / "a.npz", x=x[:2], y=y[:2])
        np.savez(folder / "b.npz", x=x[:0], y=y[:0])
        np.savez_compressed(folder / "c.npz", x=np.asfortranarray(x[2:]), y=y[2:])
        return [{"x": x[row].tolist(), "y": str(y[row])} for row in range(5)]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Put half of a pair of surrogates into a text."""
        y = np.array(["a", "b"])
        y.view(np.uint32)[1] = 0xD800
        np.savez(folder / "a.npz", x=np.arange(4).reshape(2, 2), y=y)
        left = [{"x": [0, 1], "y": "a"}, {"x": [4, 5], "y": ""}, {"x": [6, 7], "y": "d"}, {"x": [8, 9], "y": "🦙"}]
        return "a.npz:1", "'y' is no text", left


DTYPES = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(endianness="?"),
    arrays.unsigned_integer_dtypes(endianness="?"),
    arrays.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)


@given(
    array=DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, arrays.array_shapes(max_dims=4, max_side=5))),
    order=st.sampled_from("CF"),
    form=st.sampled_from(["npy", "npz", "deflated"]),
    nbytes=st.sampled_from([1, 40, 2**20]),
)
def test_numbers_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, order: str, form: str, nbytes: int
) -> None:
    """Of any dtype, byte order, shape and layout, in units and chunks of any size."""
    folder = tmp_path_factory.mktemp("a")
    given_ = np.asarray(array, order=order)
    if form == "npy":
        np.save(folder / "data.npy", given_)
    else:
        (np.savez if form == "npz" else np.savez_compressed)(folder / "data.npz", data=given_)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CHUNK_NBYTES", "UNIT_NBYTES", "SCATTERED_NBYTES"):
            patch.setattr(numpy_files, name, nbytes)
        source = NumpyFiles(str(folder), PLAIN)
        chunks = list(read_chunks(source, source.units(), refuse))
    feature = source.schema()["data"]
    found = np.concatenate([chunk.columns["data"].values for chunk in chunks])
    assert (feature.dtype, feature.shape) == (array.dtype.name, array.shape[1:])
    assert found.tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
    wheres = [chunk.where(row) for chunk in chunks for row in range(chunk.rows)]
    assert [int(where.rpartition(":")[2]) for where in wheres] == list(range(len(array)))


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=9),
    order=st.sampled_from("<>"),
)
def test_text_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, texts: list[str], order: str) -> None:
    """And so do bytes; NULs behind them go, as NumPy itself drops them."""
    folder = tmp_path_factory.mktemp("t")
    array = np.array(texts).astype(f"{order}U9") if max(map(len, texts)) < 9 else np.array(texts)
    expected = array.tolist()
    for form in (array, array.reshape(-1, 1)):
        feature, found = one(folder, form)
        assert (feature.dtype, feature.shape) == ("utf8", form.shape[1:])
        assert found == [[text] if form.ndim == 2 else text for text in expected]
    data = np.array([text.encode() for text in texts])
    feature, found = one(folder, data)
    assert (feature.dtype, found) == ("bytes", data.tolist())


def test_times_become_int64_in_their_unit(tmp_path: Path) -> None:
    """Units that Arrow lacks become seconds; NaT stays the smallest integer."""
    for dtype, media, values in (
        ("M8[us]", "timestamp[us]", [1, -5]),
        (">M8[ns]", "timestamp[ns]", [2**62, 0]),
        ("m8[ms]", "duration[ms]", [-1, 7]),
        ("M8[D]", "timestamp[s]", [86400, -86400]),
        ("M8[M]", "timestamp[s]", [31 * 86400, -31 * 86400]),
        ("m8[h]", "duration[s]", [3600, -3600]),
    ):
        unit = dtype.rpartition("8")[0][-1] + "8[" + media.partition("[")[2]
        array = np.array([*values, -(2**63)], np.int64).view(unit).astype(dtype)
        feature, found = one(tmp_path, array)
        assert (feature.dtype, feature.media) == ("int64", media)
        assert found == [*values, -(2**63)]


def test_a_time_past_int64_is_a_bad_item(tmp_path: Path) -> None:
    """Days that are too many seconds; the other rows are kept."""
    np.save(tmp_path / "t.npy", np.array([1, 2**62, 3], np.int64).view("M8[D]"))
    _, rows, bad = read(tmp_path)
    assert rows == [{"data": 86400}, {"data": 3 * 86400}]
    assert [(item.where, item.reason) for item in bad] == [
        (f"{tmp_path / 't.npy'}:1", "'data' is a time past what int64 holds in s")
    ]


def test_structured_arrays_give_a_feature_per_field(tmp_path: Path) -> None:
    """Fields of fields and arrays in fields, packed or aligned; beside others under the array's name."""
    for align in (False, True):
        dtype = np.dtype(
            [("a", "u1"), ("é", [("c", "<f4", (2,)), ("d", "S3")]), ("flag", "?"), ("t", ">M8[s]")], align=align
        )
        array = np.array([(1, ([0.5, 2], b"x"), True, 9), (2, ([1, -1], b""), False, 8)], dtype)
        rows = [
            {"a": 1, "é.c": [0.5, 2.0], "é.d": b"x", "flag": True, "t": 9},
            {"a": 2, "é.c": [1.0, -1.0], "é.d": b"", "flag": False, "t": 8},
        ]
        np.save(tmp_path / "t.npy", array)
        assert read(tmp_path / "t.npy")[1:] == (rows, [])
        np.savez(tmp_path / "t.npz", s=array, n=np.arange(2))
        found = read(tmp_path / "t.npz")[1]
        assert found == [{**{f"s.{name}": row[name] for name in row}, "n": i} for i, row in enumerate(rows)]


def test_bools_that_are_neither_0_nor_1_are_true(tmp_path: Path) -> None:
    """As NumPy takes them; a record holds nothing else than 0 and 1."""
    np.save(tmp_path / "t.npy", np.array([0, 1, 2, 255], np.uint8).view(np.bool_))
    source = NumpyFiles(str(tmp_path), PLAIN)
    values = next(read_chunks(source, source.units(), refuse)).columns["data"].values
    assert values.view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (
            np.array([{"a": 1}, None], object),
            "no feature holds object .*pickled objects are never read",
        ),
        (np.zeros(2, np.complex64), r"no feature holds complex64 .*by view\('f4'\)"),
        (np.zeros(2, np.longdouble), r"no feature holds .*write it as float64"),
        (np.zeros(2, "V3"), r"no feature holds .*V3.*write it as numbers"),
        (np.zeros(2, "M8[ps]"), r"no feature holds datetime64\[ps\]: write it as datetime64\[ns\]"),
        (np.zeros(2, "m8[Y]"), r"no feature holds timedelta64\[Y\]"),
        (np.zeros((2, 3, 3), "U1"), "no feature holds lists of lists of text"),
    ],
)
def test_dtypes_without_a_feature_are_refused_by_name(tmp_path: Path, array: np.ndarray, reason: str) -> None:
    """The array is named; with --columns the others are read."""
    np.savez(tmp_path / "t.npz", x=array, y=np.arange(2))
    for need in (NumpyFiles(str(tmp_path), PLAIN).schema, NumpyFiles(str(tmp_path), PLAIN).units):
        with pytest.raises(SourceError, match=rf"t\.npz: feature 'x': ({reason})"):
            need()
    assert read(tmp_path, SourceOptions(columns=("y",)))[1] == [{"y": 0}, {"y": 1}]


def test_wanted_features_alone_are_read(tmp_path: Path) -> None:
    """Fields of an array, too; a name that is not there is an error that lists those that are."""
    array = np.array([(1, 2.5), (3, 4.5)], [("a", int), ("b", float)])
    np.savez(tmp_path / "t.npz", s=array, n=np.arange(2), long=np.arange(5))
    options = SourceOptions(columns=("n", "s.b"))
    assert read(tmp_path, options)[1] == [{"s.b": 2.5, "n": 0}, {"s.b": 4.5, "n": 1}]
    assert NumpyFiles(str(tmp_path), options).options()["columns"] == ["n", "s.b"]
    with pytest.raises(ConfigError, match=r"no feature 's\.c'; .* has s\.a, s\.b"):
        NumpyFiles(str(tmp_path), SourceOptions(columns=("s.c",))).schema()
    np.savez(tmp_path / "t.npz", s=array, n=np.arange(2))
    with pytest.raises(ConfigError, match=r"no feature 'm'; .* has s\.a, s\.b, n"):
        NumpyFiles(str(tmp_path), SourceOptions(columns=("m",))).schema()


def test_files_that_are_not_wanted_are_not_read(tmp_path: Path) -> None:
    """Whatever is in them; a name that no file has is an error that lists those that are there."""
    np.save(tmp_path / "x.npy", np.arange(2))
    (tmp_path / "y.npy").write_bytes(b"text")
    assert read(tmp_path, SourceOptions(columns=("x",)))[1:] == ([{"x": 0}, {"x": 1}], [])
    np.save(tmp_path / "y.npy", np.arange(2))
    with pytest.raises(ConfigError, match=r"no feature 'z'; .* has x, y"):
        NumpyFiles(str(tmp_path), SourceOptions(columns=("z",))).schema()


def test_int64_lists_keep_integer_arrays(tmp_path: Path) -> None:
    """In the plain TensorFlow form."""
    np.save(tmp_path / "t.npy", np.arange(6).reshape(2, 3))
    assert read(tmp_path)[0]["data"].kind == "bytes"
    options = SourceOptions(int64_lists=True)
    assert read(tmp_path, options)[0]["data"].kind == "int64"
    assert NumpyFiles(str(tmp_path), options).options() == {"int64_lists": True}


def test_arrays_are_told_and_read_from_a_url(tmp_path: Path) -> None:
    """By ranges of rows, in C and in Fortran order, from .npz too."""
    x = np.arange(300).reshape(100, 3)
    np.save(tmp_path / "c.npy", x)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    np.savez(tmp_path / "z.npz", x=x)
    np.savez_compressed(tmp_path / "d.npz", x=x)
    for file in tmp_path.iterdir():
        fsspec.filesystem("memory").pipe(f"/numpy/{file.name}", file.read_bytes())
        url = f"memory://numpy/{file.name}"
        assert open_source(url, None, PLAIN).kind == open_source(str(file), None, PLAIN).kind == "numpy"
        assert [list(itertools.chain(*row.values())) for row in read(url)[1]] == x.tolist()


def test_a_converted_array_reads_back_the_same(tmp_path: Path) -> None:
    """From file to dataset, in several units."""
    tokens = np.random.default_rng(0).integers(0, 2**16, (20_000, 513), np.uint16)
    np.save(tmp_path / "tokens.npy", tokens)
    assert len(NumpyFiles(str(tmp_path), PLAIN).units()) == 2
    report = convert(tmp_path / "tokens.npy", tmp_path / "out")
    dataset = Dataset(tmp_path / "out")
    assert report.records == len(dataset) == 20_000
    assert all((dataset[row]["data"] == tokens[row]).all() for row in range(0, 20_000, 97))


def test_arrays_without_rows_alone_are_an_empty_source(tmp_path: Path) -> None:
    """0 bytes and 0 rows hold nothing to convert, as does a folder without such files."""
    source = NumpyFiles(str(tmp_path), PLAIN)
    with pytest.raises(EmptySource, match=r"no file ends in \.npy, \.npz"):
        source.units()
    (tmp_path / "a-0.npy").touch()
    np.save(tmp_path / "a-1.npy", np.zeros((0, 3)))
    with pytest.raises(EmptySource, match="no array has a row"):
        NumpyFiles(str(tmp_path), PLAIN).schema()
