"""Test that damaged Arrow files are bad items, and never read past their memory."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import ipc
from source_contract import rows_of

from datafeed.converters.arrow_files import ArrowFiles
from datafeed.converters.encode import read_chunks
from datafeed.converters.flatbuffer import Table
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, DatafeedError, SourceError

TABLE = pa.table(
    {
        "a": pa.array([1, None, 3, 4]),
        "t": ["x", "éé", "", "zz"],
        "l": pa.array([[1, 2], [], [3], [4]], pa.list_(pa.int16())),
        "s": [{"p": 1, "q": "w"}, None, {"p": 2, "q": "v"}, {"p": 3, "q": None}],
        "d": pa.array(["p", "q", "p", "q"]).dictionary_encode(),
        "f": pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2)),
        "w": pa.array([["a"], ["b", "c"], [], ["d"]]),
        "v": pa.array(["x" * 20, "y", "z", "w"], pa.string_view()),
    }
)


def written(form: str, table: pa.Table = TABLE, **options: object) -> bytes:
    """Return a file or stream of batches of two rows."""
    sink = io.BytesIO()
    new = ipc.new_stream if form == "stream" else ipc.new_file
    with new(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table, 2)
    return sink.getvalue()


def read(path: Path) -> tuple[list[dict[str, object]], list[BadItem]]:
    """Read all of a source, with its bad items."""
    source, bad = ArrowFiles(str(path), SourceOptions()), []
    features = source.schema().features
    rows = [row for chunk in read_chunks(source, source.units(), bad.append) for row in rows_of(features, chunk)]
    return rows, bad


def test_the_rest_of_a_cut_stream_is_a_bad_item(tmp_path: Path) -> None:
    """The batches before it are kept; a stream without its end mark is whole."""
    data = written("stream", table=pa.table({"x": [1, 2, 3, 4, 5]}))
    (tmp_path / "a.arrow").write_bytes(data[:-8])
    assert read(tmp_path) == ([{"x": number} for number in range(1, 6)], [])
    (tmp_path / "a.arrow").write_bytes(data[:-12])
    rows, bad = read(tmp_path)
    assert rows == [{"x": number} for number in range(1, 5)]
    assert bad[0].where == str(tmp_path / "a.arrow")
    assert "nothing can be read from byte" in bad[0].reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (written("file")[:-3], "it has no footer"),
        (b"FEA1" + bytes(100), "Feather version 1: write it anew with pyarrow.feather.write_feather"),
        (b"no arrow file at all", "it is no Arrow file or stream"),
        (b"\x1f\x8b" + bytes(40), "it is no Arrow file or stream"),
        (b"ARROW1", "it has no footer"),
        (written("file", table=pa.table([[1], [2]], ["x", "x"])), "two of its columns share the name 'x'"),
    ],
)
def test_a_file_that_is_none_is_a_bad_item(tmp_path: Path, data: bytes, reason: str) -> None:
    """As a whole, beside files that are read; alone it is an error."""
    (tmp_path / "b.arrow").write_bytes(data)
    with pytest.raises(SourceError, match=r"no Arrow file can be read; the first is .*b\.arrow: .*" + reason):
        ArrowFiles(str(tmp_path), SourceOptions()).schema()
    (tmp_path / "a.arrow").write_bytes(written("stream", table=pa.table({"x": [1, 2]})))
    rows, bad = read(tmp_path)
    assert rows == [{"x": 1}, {"x": 2}]
    assert [item.where for item in bad] == [str(tmp_path / "b.arrow")]
    assert reason in bad[0].reason


@pytest.mark.parametrize("form", ["stream", "file"])
@pytest.mark.parametrize(
    ("kind", "values", "good", "wrong"),
    [
        (pa.string(), ["abcdef", "gh"], [0, 6, 8], [0, 999, 8]),
        (pa.string(), ["abcdef", "gh"], [0, 6, 8], [0, -6, 8]),
        (pa.list_(pa.int32()), [[1] * 6, [2] * 2], [0, 6, 8], [0, 9, 8]),
        (pa.list_(pa.string()), [["a"] * 6, ["b"] * 2], [0, 6, 8], [0, 6, 1 << 20]),
    ],
    ids=["too far", "negative", "list", "list of text"],
)
def test_offsets_that_lead_elsewhere_are_bad_items(
    tmp_path: Path, form: str, kind: pa.DataType, values: list[object], good: list[int], wrong: list[int]
) -> None:
    """Arrow trusts them; the batch is lost, and others are kept."""
    before = pa.table({"x": pa.array([values[1], values[1], *values], kind)})
    data = written(form, table=before)
    where = data.rindex(np.array(good, np.int32).tobytes())
    (tmp_path / "a.arrow").write_bytes(
        data[:where] + np.array(wrong, np.int32).tobytes() + data[where + 4 * len(good) :]
    )
    rows, bad = read(tmp_path)
    assert rows == [{"x": values[1]}, {"x": values[1]}]
    assert bad[0].where == f"{tmp_path / 'a.arrow'}:2"
    assert "its record batch cannot be read" in bad[0].reason


def test_an_index_past_its_dictionary_is_a_bad_item(tmp_path: Path) -> None:
    """Arrow would read whatever stands there."""
    codes = pa.array([1, 0], pa.int32())
    table = pa.table({"x": pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]))})
    data = written("stream", table=table)
    where = data.rindex(np.array([1, 0], np.int32).tobytes())
    (tmp_path / "a.arrow").write_bytes(data[:where] + b"\xff\xff\xff\x7f" + data[where + 4 :])
    rows, bad = read(tmp_path)
    assert (rows, len(bad)) == ([], 1)


def test_text_that_is_no_utf8_is_a_bad_item(tmp_path: Path) -> None:
    """Alone, in a list and in a dictionary: the row is named and kept aside as bytes, the others are read."""
    text = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), text)
    lists = pa.ListArray.from_arrays([0, 1, 2, 3], text)
    for name, array, data in (("t", text, rb"b'\xff'"), ("d", words, rb"b'\xff'"), ("l", lists, rb"[b'\xff']")):
        (tmp_path / "a.arrow").write_bytes(written("file", table=pa.table({name: array})))
        rows, bad = read(tmp_path)
        assert [row[name] for row in rows] == ([["a"], ["c"]] if name == "l" else ["a", "c"])
        assert (bad[0].where, bad[0].reason) == (f"{tmp_path / 'a.arrow'}:1", f"{name!r} is text and no UTF-8")
        assert bad[0].data == b"{'%s': %s}" % (name.encode(), data)


FORMS = [written(form, compression=packed) for form in ("file", "stream") for packed in (None, "zstd", "lz4")]


@settings(max_examples=400)
@given(
    form=st.sampled_from(FORMS),
    flaws=st.lists(st.tuples(st.floats(0, 0.999), st.binary(min_size=1, max_size=4)), min_size=1, max_size=3),
    cut=st.none() | st.floats(0, 1),
)
@example(form=FORMS[3], flaws=[(0.19921875, b"\0\0\0\x17")], cut=None)  # the first batch, which tells images
def test_any_damage_is_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, form: bytes, flaws: list[tuple[float, bytes]], cut: float | None
) -> None:
    """Bytes changed anywhere, or the end cut off, give samples, bad items or a source error: nothing else."""
    data = bytearray(form)
    for place, value in flaws:
        at = int(place * len(form))
        data[at : at + len(value)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.arrow"
    path.write_bytes(data if cut is None else data[: int(cut * len(data))])
    try:
        read(path)
    except DatafeedError as exc:
        assert str(path) in str(exc)  # noqa: PT017  (it may as well be read)


@pytest.mark.parametrize("data", [b"", bytes(3), b"\xff\xff\xff\x7f", b"\x04\0\0\0\x08\0\0\0"])
def test_a_buffer_that_is_no_flatbuffer_is_refused(data: bytes) -> None:
    """No position leads out of it, to whatever side."""
    with pytest.raises(ValueError, match="expected a value at byte"):
        Table.root(data).number(0, "q")
