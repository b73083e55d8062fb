"""Test telling NumPy's files apart, and what is damaged in them."""

from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_contract import rows_of

from datafeed.converters import array_rows, npz
from datafeed.converters.array_names import group_names
from datafeed.converters.encode import read_chunks
from datafeed.converters.npy_header import DamagedError, read_header
from datafeed.converters.numpy_files import NumpyFiles
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, SourceError

PLAIN = SourceOptions()


def read(path: Path) -> tuple[list[list[object]], list[BadItem]]:
    """Return the samples as lists of values, and the bad items."""
    source, bad = NumpyFiles(str(path), PLAIN), []
    features = source.schema().features
    chunks = list(read_chunks(source, source.units(), bad.append))
    return [list(row.values()) for chunk in chunks for row in rows_of(features, chunk)], bad


def npy(header: str | bytes, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    """Write a .npy file by hand."""
    text = header.encode("latin1") if isinstance(header, str) else header
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text + data


def described(shape: str, descr: str = "'<i4'") -> str:
    """Return the text of a header."""
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["tokens.npy"], [{"": 0}]),
        (["p-0.npy", "p-1.npy", "p-10.npy"], [{"": 0}, {"": 1}, {"": 2}]),
        (["a/x.npy", "b/x.npy"], [{"": 0}, {"": 1}]),
        (["000.npy", "001.npy"], [{"": 0}, {"": 1}]),
        (["x.npy", "y.npy"], [{"x": 0, "y": 1}]),
        (["x1.npy", "y2.npy"], [{"x1": 0, "y2": 1}]),
        (["x_0.npy", "x_1.npy", "y_0.npy", "y_1.npy"], [{"x": 0, "y": 2}, {"x": 1, "y": 3}]),
        (["0/x.npy", "0/y.npy", "1/x.npy", "1/y.npy"], [{"x": 0, "y": 1}, {"x": 2, "y": 3}]),
        (["000.npy", "001.npy", "y000.npy", "y001.npy"], [{"data": 0, "y": 2}, {"data": 1, "y": 3}]),
        (["x\udcff.npy", "y.npy"], [{"x\\xff": 0, "y": 1}]),
    ],
)
def test_names_tell_parts_from_arrays(names: Sequence[str], groups: list[dict[str, int]]) -> None:
    """Names that are the same but for digits are parts of one array."""
    assert group_names(names) == groups


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["x1.npy", "x2.npy", "y.npy"], r"x1\.npy is one of 2, but y\.npy is one of 1: .*name them apart"),
        (["x_1.npy", "x-1.npy", "x_2.npy", "x-2.npy"], "two arrays would be named alike: x, x"),
    ],
)
def test_names_that_leave_it_open_are_refused(names: Sequence[str], reason: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(SourceError, match=reason):
        group_names(names)


def test_files_of_other_names_are_features(tmp_path: Path) -> None:
    """Row by row; with parts, part by part, which is noted."""
    for number in range(2):
        np.save(tmp_path / f"x-{number}.npy", np.arange(3) + 10 * number)
        np.save(tmp_path / f"y-{number}.npy", np.array(["a", "b", "c"]))
    assert read(tmp_path) == ([[v + 10 * n, t] for n in range(2) for v, t in enumerate("abc")], [])
    assert NumpyFiles(str(tmp_path), PLAIN).notes() == [
        "2 files are parts of each of x, y, as their names differ in digits alone"
    ]


def test_lengths_that_differ_are_named(tmp_path: Path) -> None:
    """Of files and of members; with the way to read some of them."""
    np.save(tmp_path / "x.npy", np.arange(3))
    np.save(tmp_path / "y.npy", np.arange(4))
    np.savez(tmp_path / "t.npz", x=np.arange(3), y=np.arange(4))
    for path in ((str(tmp_path / "x.npy"), str(tmp_path / "y.npy")), str(tmp_path / "t.npz")):
        with pytest.raises(SourceError, match="x has 3, y has 4: say by --columns which belong together"):
            NumpyFiles(path, PLAIN).schema()
        chosen = NumpyFiles(path, SourceOptions(columns=("y",)))
        assert sum(chunk.rows for unit in chosen.units() for chunk in chosen.read(unit, pytest.fail)) == 4
    with pytest.raises(SourceError, match=r"t\.npz is a \.npz file, .*x\.npy is none: convert them apart"):
        NumpyFiles(str(tmp_path), PLAIN).units()


def test_files_that_differ_are_named(tmp_path: Path) -> None:
    """In dtype, row shape, or in having an array; one without rows may differ."""
    np.save(tmp_path / "p0.npy", np.array([]))
    np.save(tmp_path / "p1.npy", np.zeros((2, 3), np.int32))
    for other, told in ((np.zeros((2, 4), np.int32), r"int32 of shape \(4,\)"), (np.zeros((2, 3)), "float64 of")):
        np.save(tmp_path / "p2.npy", other)
        with pytest.raises(SourceError, match=rf"'data' is {told}.* in .*p2\.npy and int32 of shape \(3,\) in .*p1"):
            NumpyFiles(str(tmp_path), PLAIN).schema()
    (tmp_path / "z").mkdir()
    np.savez(tmp_path / "z" / "a.npz", x=np.arange(2), y=np.arange(2))
    np.savez(tmp_path / "z" / "b.npz", x=np.arange(2))
    with pytest.raises(SourceError, match=r"'y' is nowhere in .*b\.npz and int64 .*a\.npz"):
        NumpyFiles(str(tmp_path / "z"), PLAIN).schema()


def test_single_values_are_left_out_and_noted(tmp_path: Path) -> None:
    """So are members that are no array; alone, they are nothing to convert."""
    np.savez(tmp_path / "t.npz", x=np.asfortranarray(np.zeros((2, 2))), version=np.array(3))
    with zipfile.ZipFile(tmp_path / "t.npz", "a") as archive:
        archive.writestr("README.txt", "text")
    assert read(tmp_path)[0] == [[[0.0, 0.0]]] * 2
    assert NumpyFiles(str(tmp_path), PLAIN).notes() == [
        "left out, as it is a single value: version",
        "left out, as it is no array: README.txt",
        "in Fortran order, which is slow to read by rows: x",
    ]
    np.save(tmp_path / "t.npy", np.array(3))
    with pytest.raises(SourceError, match=r"t\.npy: no array has an axis that counts samples"):
        NumpyFiles(str(tmp_path / "t.npy"), PLAIN).schema()


def test_f44_a_file_cut_at_any_length_is_named(tmp_path: Path) -> None:
    """Plain and in a zip file; alone it is an error, beside others a bad item."""
    np.save(tmp_path / "a.npy", np.arange(5))
    np.savez(tmp_path / "a.npz", x=np.arange(5))
    for name in ("a.npy", "a.npz"):
        whole = (tmp_path / name).read_bytes()
        for length in range(1, len(whole)):
            (tmp_path / name).write_bytes(whole[:length])
            with pytest.raises(SourceError, match=rf"no NumPy file with rows can be read; the first is .*{name}: it "):
                read(tmp_path / name)
    for number in range(2):
        np.save(tmp_path / f"b{number}.npy", np.arange(2))
    (tmp_path / "b0.npy").write_bytes((tmp_path / "b1.npy").read_bytes()[:-1])
    rows, bad = read(tmp_path / "b*.npy")
    assert (rows, [item.where for item in bad]) == ([[0], [1]], [str(tmp_path / "b0.npy")])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"text", "has no .npy header"),
        (npy(described("(1,)"), bytes(8)), "goes on behind its array.*file of its own"),
        (npy(described("(2**60,)"), bytes(8)), "has no .npy header"),
        (npy(described(f"({2**61}, 8)"), bytes(8)), "is cut short"),
        (npy(described(f"({2**61}, 0)")), "has rows that hold nothing"),
        (npy(described(f"({2**61},)", "'|S0'")), "has rows that hold nothing"),
        (npy(described("(-1,)"), bytes(4)), "has an impossible shape"),
        (npy(described("(" + "1," * 40 + ")"), bytes(4)), "has an impossible shape"),
        (npy(described("(1,)", "'<i9'")), "has no .npy header"),
        (npy(described("(1,)", "[" * 150 + "]" * 150)), "has no .npy header"),
        (npy("-" * 60_000 + "1"), "has no .npy header"),
        (npy("{" + "[" * 90 + "]" * 90 + "}"), "has no .npy header"),
        (npy(described("(1,)"), version=(9, 0)), "its version is"),
        (npy(described("(1,)") + " " * 200_000, bytes(4), (2, 0)), "has no .npy header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "has no .npy header"),
        (b"\x93NUMPY\x03\x00\xff\xff\xff\xff", "has no .npy header"),
    ],
)
def test_headers_that_lie_are_refused(data: bytes, reason: str) -> None:
    """Before anything is allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError, match=reason):
            read_header(data[: 2**16], len(data))
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_all_versions_of_headers_are_read() -> None:
    """NumPy chooses the second for long ones, the third for names past latin1; Python 2 wrote 3L."""
    for names in (["a"], ["é"], ["数"], ["\\数'\"" + "x" * 9, "b"], [f"{i:060}" for i in range(1000)]):
        array = np.zeros(3, [(name, np.int8) for name in names])
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a version is chosen
            np.save(file, array)
        if len(file.getvalue()) < 2**16:
            assert read_header(file.getvalue(), len(file.getvalue())).dtype == array.dtype
        else:
            with pytest.raises(DamagedError, match=r"has no \.npy header"):
                read_header(file.getvalue()[: 2**16], len(file.getvalue()))
    assert read_header(npy(described("(3L,)"), bytes(12)), len(npy(described("(3L,)"), bytes(12)))).shape == (3,)


@given(st.one_of(st.binary(max_size=99), st.text("'<>|=:(){}[],0123456789fiuSUVOMmsTrue descrshapfo_", max_size=99)))
def test_any_text_as_a_header_is_read_or_refused(text: str | bytes) -> None:
    """As a whole, and as its dtype and shape."""
    parts = [text] if isinstance(text, bytes) else [text, described(text), described("(1,)", text)]
    for part in parts:
        for version in ((1, 0), (2, 0), (3, 0)):
            data = npy(part, bytes(8), version)
            try:
                assert read_header(data, len(data)).data_nbytes <= 8
            except DamagedError as exc:
                assert str(exc)  # noqa: PT017  (either is right)


def test_damaged_zip_files_are_errors_or_bad_items(tmp_path: Path) -> None:
    """Whatever byte is another; what is packed has a checksum, so no value is another."""
    x = np.arange(200, dtype=np.int16) % 97
    np.savez_compressed(tmp_path / "whole.npz", x=x, y=x)
    whole = (tmp_path / "whole.npz").read_bytes()
    expected = [[int(value), int(value)] for value in x]
    told = 0
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        (tmp_path / "bad.npz").write_bytes(data)
        try:
            rows, bad = read(tmp_path / "bad.npz")
        except SourceError:
            told += 1
        else:
            told += bool(bad)
            assert bad or rows == expected or NumpyFiles(str(tmp_path / "bad.npz"), PLAIN).notes()
    assert told > len(whole) // 2


def test_an_encrypted_member_is_named(tmp_path: Path) -> None:
    """As is one that is packed in another way, and one that stands twice."""
    for flag, text in ((0x01, "encrypted"), (0x00, "two members named 'x.npy'")):
        with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
            warnings.simplefilter("ignore")  # of the name that stands twice
            for _ in range(1 if flag else 2):
                archive.writestr("x.npy", b"")
        data = bytearray((tmp_path / "t.npz").read_bytes())
        data[data.index(b"PK\1\2") + 8] |= flag
        (tmp_path / "t.npz").write_bytes(data)
        with pytest.raises(SourceError, match=text):
            read(tmp_path)


def test_f54_a_directory_that_fills_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its size, before it is read; in zip64, too."""
    monkeypatch.setattr(npz, "_DIRECTORY_NBYTES", 10_000)
    for count in (100, 70_000):
        with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
            for number in range(count):
                archive.writestr(f"{number:060}", b"")
        with pytest.raises(SourceError, match=r"has a directory of .* bytes; the limit is 10000"):
            read(tmp_path)


def test_a_large_array_that_only_fits_whole_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed and in Fortran order, its first row is known when all is unpacked."""
    np.savez_compressed(tmp_path / "t.npz", x=np.asfortranarray(np.zeros((10, 10))))
    assert len(read(tmp_path)[0]) == 10
    monkeypatch.setattr("datafeed.converters.numpy_files.INFLATED_NBYTES", 799)
    assert array_rows.INFLATED_NBYTES > 799
    with pytest.raises(SourceError, match=r"x is compressed and in Fortran order, .* 800 bytes"):
        read(tmp_path)
