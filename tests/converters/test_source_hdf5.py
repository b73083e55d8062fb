"""Test reading HDF5 files, written by h5py."""

from __future__ import annotations

from pathlib import Path

import fsspec
import h5py
import numpy as np
import pytest
from hdf5_files import PLAIN, TEXT, lists, read, write
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from source_contract import Row, SourceContract

from datafeed import Dataset
from datafeed.converters import hdf5, hdf5_sets
from datafeed.converters.convert import convert
from datafeed.converters.detect import open_source
from datafeed.converters.encode import read_chunks
from datafeed.converters.hdf5 import Hdf5
from datafeed.converters.options import SourceOptions
from datafeed.errors import ConfigError, EmptySource, SourceError
from datafeed.schema import Feature


def one(tmp_path: Path, value: object) -> tuple[Feature, list[object]]:
    """Write one data set and read it back."""
    schema, rows, bad = read(write(tmp_path / "t.h5", x=value))
    assert not bad
    return schema["x"], [row["x"] for row in rows]


class TestHdf5(SourceContract):
    """Hold a folder of HDF5 files to what every source promises."""

    def open(self, path: Path) -> Hdf5:
        """Open it."""
        return Hdf5(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write files without rows first and last, one of 0 bytes, two with five rows each."""
        rows: list[Row] = []
        for number, name in enumerate("abcd"):
            ids = range(number * 10, number * 10 + 5) if name in "bc" else range(0)
            made: list[Row] = [{"few": list(range(i % 4)), "text": f"é{i}", "x.n": [i, -i]} for i in ids]
            few = np.empty(len(made), object)
            few[:] = [np.array(row["few"], np.uint16) for row in made]
            write(
                folder / f"{name}.h5",
                few={"data": few, "dtype": h5py.vlen_dtype(np.uint16), "shape": (len(made),)},
                text={"data": [row["text"] for row in made], "dtype": TEXT, "shape": (len(made),)},
                x__n=np.array([row["x.n"] for row in made], np.int16).reshape(-1, 2),
            )
            rows += made
        (folder / "bb.h5").touch()
        return rows

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Put bytes into a text that are no UTF-8."""
        with h5py.File(folder / "b.h5", "r+") as file:
            file["text"][3] = b"\xff"
        rows: list[Row] = [{"few": list(range(i % 4)), "text": f"é{i}", "x.n": [i, -i]} for i in range(10, 15)]
        more: list[Row] = [{"few": list(range(i % 4)), "text": f"é{i}", "x.n": [i, -i]} for i in range(20, 25)]
        return "b.h5:3", "'text' is text and no UTF-8", [*rows[:3], *rows[4:], *more]


LAYOUTS = st.sampled_from(
    [
        {},
        {"chunks": True},
        {"chunks": True, "compression": "gzip"},
        {"chunks": True, "compression": "lzf", "shuffle": True, "fletcher32": True},
    ]
)


@given(
    array=st.one_of(
        arrays.boolean_dtypes(),
        arrays.integer_dtypes(endianness="?"),
        arrays.unsigned_integer_dtypes(endianness="?"),
        arrays.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    ).flatmap(lambda dtype: arrays.arrays(dtype, arrays.array_shapes(max_dims=4, max_side=5))),
    layout=LAYOUTS,
    nbytes=st.sampled_from([1, 40, 2**20]),
)
def test_numbers_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, layout: dict[str, object], nbytes: int
) -> None:
    """Of any dtype, byte order and shape, however they are stored, in units and runs of any size."""
    path = write(tmp_path_factory.mktemp("h") / "t.h5", x={"data": array, **layout})
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CHUNK_NBYTES", "UNIT_NBYTES"):
            patch.setattr(hdf5, name, nbytes)
        source = Hdf5(str(path), PLAIN)
        chunks = list(read_chunks(source, source.units(), pytest.fail))
    feature = source.schema()["x"]
    assert (feature.dtype, feature.shape) == (array.dtype.name, array.shape[1:])
    found = np.concatenate([chunk.columns["x"].values for chunk in chunks])
    assert found.tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()


@pytest.mark.parametrize(
    ("value", "expected", "dtype", "shape"),
    [
        ({"data": ["é", "", "a\nb"], "dtype": TEXT}, ["é", "", "a\nb"], "utf8", ()),
        ({"data": [["a", "b"], ["", "🦙"]], "dtype": TEXT}, [["a", "b"], ["", "🦙"]], "utf8", (2,)),
        ({"data": [b"a", b"\xff"], "dtype": h5py.string_dtype("ascii")}, [b"a", b"\xff"], "bytes", ()),
        (np.array([b"ab", b"c"]), [b"ab", b"c"], "bytes", ()),
        (np.array([[b"ab", b"c"]]), [[b"ab", b"c"]], "bytes", (2,)),
        ({"data": [b"ab", "é".encode()], "dtype": h5py.string_dtype("utf-8", 4)}, ["ab", "é"], "utf8", ()),
        (lists([[1, 2], [], [3]], "i4"), [[1, 2], [], [3]], "int32", (None,)),
        (lists([[], []], "f4"), [[], []], "float32", (None,)),
        ({"dtype": np.dtype(("<f4", (3,))), "shape": (2,)}, [[0.0] * 3] * 2, "float32", (3,)),
    ],
)
def test_text_and_lists_come_back(
    tmp_path: Path, value: object, expected: list[object], dtype: str, shape: tuple[int | None, ...]
) -> None:
    """Of fixed and of any length."""
    feature, found = one(tmp_path, value)
    assert (feature.dtype, feature.shape, found) == (dtype, shape, expected)


def test_enums_have_classes_where_they_count_from_0(tmp_path: Path) -> None:
    """Others are plain integers."""
    for names, classes in (({"cat": 0, "dog": 1}, ("cat", "dog")), ({"low": -1, "high": 1}, ())):
        feature, found = one(tmp_path, {"data": [1, 1], "dtype": h5py.enum_dtype(names, "i1")})
        assert (feature.dtype, feature.classes, found) == ("int8", classes, [1, 1])


def test_compound_types_give_a_feature_per_field(tmp_path: Path) -> None:
    """Fields of fields, of text and of arrays."""
    inner = np.dtype([("p", "<f4", (2,)), ("ok", "?")])
    dtype = np.dtype([("n", ">i4"), ("t", TEXT), ("in", inner)])
    data = np.array([(1, "é", ([0.5, 2], True)), (2, "", ([1, -1], False))], dtype)
    rows = [
        {"g.s.n": 1, "g.s.t": "é", "g.s.in.p": [0.5, 2.0], "g.s.in.ok": True},
        {"g.s.n": 2, "g.s.t": "", "g.s.in.p": [1.0, -1.0], "g.s.in.ok": False},
    ]
    path = write(tmp_path / "t.h5", g__s=data)
    assert read(path)[1:] == (rows, [])
    chosen = read(path, SourceOptions(columns=("g.s.t",)))
    assert chosen[1] == [{"g.s.t": "é"}, {"g.s.t": ""}]


def test_what_has_no_rows_is_left_out_and_noted(tmp_path: Path) -> None:
    """Single values, attributes, and links within the file, also in circles."""
    path = write(tmp_path / "t.h5", x=np.arange(2), version=np.float32(3))
    with h5py.File(path, "r+") as file:
        file["soft"] = h5py.SoftLink("/x")
        file["hard"] = file["x"]
        group = file.create_group("z")
        group["circle"] = file["z"]
        group["up"] = file["/"]
        group.attrs["a"] = file.attrs["b"] = 1
        file["none"] = h5py.Empty("f4")
    assert read(path)[1] in ([{"x": 0}, {"x": 1}], [{"hard": 0}, {"hard": 1}])
    notes = Hdf5(str(path), PLAIN).notes()
    assert notes[0] == "left out, a single value: none, version"
    assert {"soft", "z.circle"} <= set(notes[1].partition(": ")[2].split(", "))
    assert notes[2] == "left out, the attributes of: /, z"


def test_lengths_that_differ_are_named(tmp_path: Path) -> None:
    """With the way to read some of them."""
    path = write(tmp_path / "t.h5", x=np.arange(3), g__y=np.arange(4))
    with pytest.raises(SourceError, match=r"t\.h5: the arrays have .*: g\.y has 4, x has 3: say by --columns"):
        Hdf5(str(path), PLAIN).schema()
    assert read(path, SourceOptions(columns=("x",)))[1] == [{"x": 0}, {"x": 1}, {"x": 2}]
    with pytest.raises(ConfigError, match=r"columns: no feature 'z'; .*t\.h5 has g\.y, x"):
        Hdf5(str(path), SourceOptions(columns=("z",))).schema()
    with pytest.raises(ConfigError, match=r"columns: no feature 'z'; .*t\.h5 has x"):
        Hdf5(str(path), SourceOptions(columns=("x", "z"))).schema()


def test_files_that_differ_are_named(tmp_path: Path) -> None:
    """In type or in having a data set."""
    write(tmp_path / "a.h5", x=np.arange(3))
    write(tmp_path / "b.h5", x=np.zeros(3))
    with pytest.raises(SourceError, match=r"'x' is float64 of shape \(\) in .*b\.h5 and int64 of shape \(\) in .*a"):
        Hdf5(str(tmp_path), PLAIN).schema()


def test_rows_are_read_in_whole_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit ends where a chunk does; a chunk that is larger than a run stays unpacked while its rows are read."""
    monkeypatch.setattr(hdf5, "UNIT_NBYTES", 10_000)
    monkeypatch.setattr(hdf5, "CHUNK_NBYTES", 1000)
    x = np.arange(5000).reshape(1000, 5)
    path = write(tmp_path / "t.h5", x={"data": x, "chunks": (70, 3), "compression": "gzip"}, y=np.arange(1000))
    source = Hdf5(str(path), PLAIN)
    units = source.units()
    assert len(units) > 5
    assert all(int(unit.name.rpartition("#")[2]) % 70 == 0 for unit in units)
    assert [row["x"] for row in read(path)[1]] == x.tolist()
    sets = units[0].detail[0]
    assert hdf5_sets.cache_nbytes(sets) == max(2**20, 70 * 6 * 8)
    monkeypatch.setattr(hdf5_sets, "CACHE_NBYTES", 70 * 3 * 8)
    monkeypatch.setattr(hdf5, "CACHE_NBYTES", 70 * 3 * 8)
    assert [row["x"] for row in read(path)[1]] == x.tolist()
    monkeypatch.setattr(hdf5_sets, "CACHE_NBYTES", 70 * 3 * 8 - 1)
    with pytest.raises(SourceError, match=r"x has chunks of shape \(70, 3\), .*h5repack -l"):
        read(path)


def test_long_texts_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their size is told by the first ones, then by those just read."""
    monkeypatch.setattr(hdf5, "UNIT_NBYTES", 400_000)
    monkeypatch.setattr(hdf5, "CHUNK_NBYTES", 20_000)
    texts = ["x" * (1000 if row < 300 else 10) for row in range(1000)]
    path = write(tmp_path / "t.h5", x={"data": texts, "dtype": TEXT})
    source = Hdf5(str(path), PLAIN)
    assert len(source.units()) == 3
    sizes = [chunk.columns["x"].values.nbytes for chunk in read_chunks(source, source.units(), pytest.fail)]
    assert sum(sizes) == sum(map(len, texts))
    assert max(sizes) <= 64_000
    assert len(sizes) < 60


def test_a_file_is_told_and_read_from_a_url(tmp_path: Path) -> None:
    """As from a path."""
    path = write(tmp_path / "t.h5", x=np.arange(3), s={"data": ["a", "b", "c"], "dtype": TEXT})
    fsspec.filesystem("memory").pipe("/hdf5/t.h5", path.read_bytes())
    assert open_source("memory://hdf5", None, PLAIN).kind == open_source(str(path), None, PLAIN).kind == "hdf5"
    assert read("memory://hdf5/t.h5")[1:] == read(path)[1:]


def test_a_converted_file_reads_back_the_same(tmp_path: Path) -> None:
    """From file to dataset; with --int64-lists, too."""
    x = np.arange(3000, dtype=np.int32).reshape(1000, 3)
    path = write(tmp_path / "t.h5", x={"data": x, "compression": "gzip"}, b=x[:, 0] % 2 == 0)
    convert(path, tmp_path / "out")
    dataset = Dataset(tmp_path / "out")
    assert [(dataset[row]["x"].tolist(), dataset[row]["b"]) for row in range(1000)] == [
        (values, values[0] % 2 == 0) for values in x.tolist()
    ]
    options = SourceOptions(int64_lists=True)
    assert read(path, options)[0]["x"].kind == "int64"
    assert Hdf5(str(path), options).options() == {"int64_lists": True}


def test_data_sets_without_rows_alone_are_an_empty_source(tmp_path: Path) -> None:
    """0 bytes and 0 rows hold nothing to convert."""
    (tmp_path / "a.h5").touch()
    write(tmp_path / "b.h5", x=np.zeros((0, 3)))
    with pytest.raises(EmptySource, match="no data set has a row"):
        Hdf5(str(tmp_path), PLAIN).schema()
    assert Hdf5(str(tmp_path), PLAIN).notes() == ["1 of the files has 0 bytes"]
    write(tmp_path / "b.h5", x=3)
    with pytest.raises(SourceError, match="no data set has an axis that counts samples"):
        Hdf5(str(tmp_path), PLAIN).units()
