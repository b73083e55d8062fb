"""Test what HDF5 files hold that is refused, damaged, or somebody else's."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hdf5_files import PLAIN, TEXT, lists, read, write

from datafeed.converters import hdf5, hdf5_sets
from datafeed.converters.hdf5 import Hdf5
from datafeed.converters.options import SourceOptions
from datafeed.errors import MissingExtra, SourceError


def refused(path: Path, reason: str) -> None:
    """Check that a file with a feature "fine" beside a bad one is refused, and read by what is fine alone."""
    for need in (Hdf5(str(path), PLAIN).schema, Hdf5(str(path), PLAIN).units):
        with pytest.raises(SourceError, match=rf"{path.name}: {reason}"):
            need()
    rows = read(path, SourceOptions(columns=("fine",)))[1]
    assert [row["fine"] for row in rows] == list(range(len(rows)))
    assert rows


def nested() -> dict[str, object]:
    """Return a data set of lists of lists."""
    data = np.empty(2, object)
    data[:] = [np.zeros(2, object), np.zeros(0, object)]
    return {"shape": (2,), "dtype": h5py.vlen_dtype(h5py.vlen_dtype(np.int8))}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"shape": (2,), "dtype": h5py.ref_dtype}, "no feature holds references to other objects"),
        ({"shape": (2,), "dtype": h5py.regionref_dtype}, "no feature holds references to other objects"),
        ({"shape": (2,), "dtype": np.dtype([("r", h5py.ref_dtype)])}, "no feature holds references to other objects"),
        (np.zeros(2, np.complex64), "no feature holds complex64"),
        (np.zeros(2, "V3"), r"no feature holds .*V3"),
        ({"shape": (2, 3), "dtype": h5py.vlen_dtype(np.int8)}, r"no feature holds lists of int8 of shape \(3,\)"),
        (nested(), "no feature holds lists of object"),
        ({"shape": (2,), "dtype": h5py.vlen_dtype(TEXT)}, "no feature holds lists of object"),
        (lists([[1], []], ">i4"), r"h5py \(3.14\) reads lists of >i4 as if .*: write them as <i4"),
        ({"shape": (2, 2, 2), "dtype": TEXT}, "no feature holds lists of lists of text"),
        (np.zeros((2, 0)), "its rows hold nothing"),
    ],
)
def test_types_without_a_feature_are_refused_by_name(tmp_path: Path, value: object, reason: str) -> None:
    """The data set is named; with --columns the others are read."""
    refused(write(tmp_path / "t.h5", fine=np.arange(2), odd=value), rf"feature 'odd[.rv]*': {reason}")


def test_what_lies_in_other_files_is_never_opened(tmp_path: Path) -> None:
    """Links, virtual data sets and external storage are refused by name; a pipe in their place would hang a reader."""
    os.mkfifo(tmp_path / "other.h5")
    made = 0
    for kind in ("link", "group", "virtual", "storage"):
        path = write(tmp_path / f"{kind}.h5", fine=np.arange(2))
        with h5py.File(path, "r+") as file:
            if kind == "link":
                file["odd"] = h5py.ExternalLink("other.h5", "/x")
            elif kind == "group":
                file["deep/odd"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/")
            elif kind == "virtual":
                layout = h5py.VirtualLayout((2,), "i8")
                layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (2,))
                file.create_virtual_dataset("odd", layout)
            else:
                file.create_dataset("odd", (2,), "i8", external=[(str(tmp_path / "other.h5"), 0, 16)])
        refused(path, r"(deep\.)?odd (is a link to another file|lies in other files), .*--columns")
        made += 1
    assert made == 4


def test_a_filter_that_is_unknown_is_named(tmp_path: Path) -> None:
    """By its number and name, as h5repack calls it."""
    path = write(tmp_path / "t.h5", fine=np.arange(2))
    with h5py.File(path, "r+") as file:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((2,))
        plan.set_filter(32_765, h5py.h5z.FLAG_OPTIONAL)
        h5py.h5d.create(file.id, b"odd", h5py.h5t.NATIVE_INT64, h5py.h5s.create_simple((2,)), plan)
    refused(path, r"odd is packed by the filter 32765 \(.*\), which h5py lacks: .*h5repack")


def test_a_damaged_chunk_loses_its_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checksum tells; the item says which rows."""
    monkeypatch.setattr(hdf5, "CHUNK_NBYTES", 120)
    path = write(tmp_path / "t.h5", x={"data": np.arange(50), "chunks": (10,), "fletcher32": True})
    with h5py.File(path, "r") as file:
        place = file["x"].id.get_chunk_info(2).byte_offset
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    _, rows, bad = read(path)
    assert [row["x"] for row in rows] == [*range(20), *range(30, 50)]
    assert [item.where for item in bad] == [f"{path}:20"]
    assert bad[0].reason.startswith("rows 20 to 29 cannot be read: ")


def test_text_that_is_no_utf8_is_a_bad_item(tmp_path: Path) -> None:
    """Also where a row has several texts."""
    path = write(tmp_path / "t.h5", x={"data": [["a", "b"], [b"c", b"\xff"], ["d", "e"]], "dtype": TEXT})
    _, rows, bad = read(path)
    assert [row["x"] for row in rows] == [["a", "b"], ["d", "e"]]
    assert [(item.where, item.reason) for item in bad] == [(f"{path}:1", "'x' is text and no UTF-8")]


def test_f44_a_file_cut_at_any_length_is_a_bad_item(tmp_path: Path) -> None:
    """Alone it is an error; rows are read as they were, or not at all."""
    path = write(tmp_path / "t.h5", x=np.arange(40), s={"data": ["a"] * 40, "dtype": TEXT})
    whole = path.read_bytes()
    for length in [*range(1, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(SourceError, match=r"no HDF5 file with rows can be read; the first is .*t\.h5: it is no"):
            read(path)
    path.write_bytes(whole)
    (tmp_path / "u.h5").write_bytes(whole[:-1])
    _, rows, bad = read(tmp_path)
    assert len(rows) == 40
    assert [item.where for item in bad] == [str(tmp_path / "u.h5")]


def test_a_source_with_lists_and_enums_can_be_pickled(tmp_path: Path) -> None:
    """h5py keeps such types in the metadata of NumPy's."""
    enum = {"data": [1, 0], "dtype": h5py.enum_dtype({"a": 0, "b": 1}, "i1")}
    write(tmp_path / "t.h5", x=lists([[1], []], "i4"), t={"data": ["p", "q"], "dtype": TEXT}, e=enum)
    source = Hdf5(str(tmp_path), PLAIN)
    source.schema()
    copy, units = pickle.loads(pickle.dumps((source, source.units())))  # noqa: S301  (its own)
    chunk = next(copy.read(units[0], pytest.fail))
    assert chunk.columns["x"].values.tolist() == [1]
    assert copy.schema()["e"].classes == ("a", "b")


def test_too_many_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set per sample is another form of data."""
    monkeypatch.setattr(hdf5_sets, "_LINKS", 10)
    write(tmp_path / "t.h5", **{f"image{number}": np.zeros(3) for number in range(11)})
    with pytest.raises(SourceError, match="holds more than 10 links: a data set holds one feature of all samples"):
        Hdf5(str(tmp_path), PLAIN).units()


def test_a_missing_package_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the extra."""
    path = write(tmp_path / "t.h5", x=np.arange(2))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtra, match=r"h5py is needed to read HDF5: pip install 'datafeed-torch\[hdf5\]'"):
        Hdf5(str(path), PLAIN).schema()


def test_f54_a_shape_that_storage_never_fills_is_refused(tmp_path: Path) -> None:
    """Chunks that are not there read as zeros, so that a small file could give rows without end."""
    write(tmp_path / "t.h5", x={"shape": (2**40, 4), "dtype": "f4", "chunks": (1024, 4)})
    with pytest.raises(SourceError, match=r"t\.h5: .*x takes 17592186044416 bytes by its shape, and 0 in the file"):
        Hdf5(str(tmp_path), PLAIN).units()
    path = write(tmp_path / "t.h5", x={"data": np.zeros(2**20), "compression": "gzip", "compression_opts": 9})
    assert Hdf5(str(path), PLAIN).units()
