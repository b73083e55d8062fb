"""Test reading LitData chunks, written by LitData's own writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from peer import Peer
from shard_writers import write_litdata
from source_contract import Row, SourceContract, check_form, rows_of

from datafeed.converters import item_table, item_units, litdata_blocks
from datafeed.converters.encode import read_chunks
from datafeed.converters.litdata import LitData
from datafeed.converters.opening import open_source
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, SourceError
from datafeed.schema import Feature

pytestmark = pytest.mark.peers

PLAIN = SourceOptions()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def read(path: Path | str, options: SourceOptions = PLAIN) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items, checking the form of every column."""
    source, bad = LitData(str(path), options), []
    schema, rows = source.schema(), []
    for chunk in read_chunks(source, source.units(), bad.append):
        for feature in schema:
            check_form(feature, chunk.columns[feature.name], chunk.rows)
        rows += rows_of(schema.features, chunk)
    return rows, bad


def item(number: int) -> tuple[object, ...]:
    """Return an item: a tuple, so that LitData keeps it leaf by leaf."""
    return (number, {"text": f"é{number}", "few": np.arange(number % 3, dtype=np.uint16)})


def row(number: int) -> Row:
    """Return the same as a source gives it back."""
    return {"0": number, "1.text": f"é{number}", "1.few": list(range(number % 3))}


class TestLitData(SourceContract):
    """Hold a folder of two data sets to what every source promises."""

    @pytest.fixture(autouse=True)
    def _writer(self, shard_writer: Peer) -> None:
        self.peer = shard_writer

    def open(self, path: Path) -> LitData:
        """Open it."""
        return LitData(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write chunks of up to four items into two folders."""
        write_litdata(self.peer, folder / "a", [item(i) for i in range(9)])
        write_litdata(self.peer, folder / "b", [item(i) for i in range(9, 14)])
        assert len(list(folder.glob("*/*.bin"))) == 5
        return [row(i) for i in range(14)]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Put a byte that begins no character into the text of the second item."""
        chunk = folder / "a" / "chunk-0-0.bin"
        chunk.write_bytes(chunk.read_bytes().replace("é1".encode(), b"\xff\xa91"))
        return "chunk-0-0.bin: item 1", "'1.text': it is text and no UTF-8", [row(i) for i in range(14) if i != 1]


class TestRows(TestLitData):
    """Hold dicts of plain values, which LitData keeps as Arrow rows, to the same."""

    def write(self, folder: Path) -> list[Row]:
        """Write chunks of up to four items."""
        rows: list[Row] = [
            {
                "id": i,
                "text": f"é{i}",
                "score": i / 4,
                "good": i % 2 == 0,
                "raw": b"\xff%d" % i,
                "few": [i] * (1 + i % 3),
            }
            for i in range(9)
        ]
        write_litdata(self.peer, folder, rows)
        return rows

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Take the mark of the rows at the end of the second chunk."""
        rows = self.write(folder / "again")
        (folder / "again" / "index.json").unlink()
        chunk = folder / "chunk-0-1.bin"
        chunk.write_bytes(chunk.read_bytes()[:-1] + b"\1")
        return "chunk-0-1.bin", "it has no Arrow rows at its end", rows[:4] + rows[8:]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, -(2**63)], Feature("x", "int64", "int64")),
        ([0.1, float("-inf")], Feature("x", "bytes", "float64")),
        ([True, False], Feature("x", "int64", "bool")),
        (["", "🦙é"], Feature("x", "bytes", "utf8")),
        ([b"", b"\xff\0"], Feature("x", "bytes", "bytes")),
        ([PNG, PNG + b"x"], Feature("x", "bytes", "bytes", media="image/png")),
        ([np.arange(3, dtype=np.int8), np.arange(5, dtype=np.int8)], Feature("x", "bytes", "int8", (None,))),
        ([np.array([True, False]), np.array([False, True])], Feature("x", "bytes", "bool", (2,))),
        ([np.ones((2, 3), np.float16)] * 2, Feature("x", "bytes", "float16", (2, 3))),
        ([np.ones((2, 3), np.uint64), np.ones((0, 3), np.uint64)], Feature("x", "bytes", "uint64", (None, 3))),
        ([torch.arange(4), torch.arange(4)], Feature("x", "bytes", "int64", (4,))),
        ([torch.ones(2, 2), torch.ones(3, 2)], Feature("x", "float", "float32", (None, 2))),
        (
            [torch.tensor(7), torch.tensor(-(2**62))],
            Feature("x", "int64", "int64"),
        ),
    ],
)
def test_values_come_back(tmp_path: Path, shard_writer: Peer, values: list[Any], expected: Feature) -> None:
    """Beside others, as the only leaf, and packed in each way that there is."""
    numbered = [("ab" * i, value, i) for i, value in enumerate(values)]
    write_litdata(shard_writer, tmp_path / "beside", numbered)
    write_litdata(shard_writer, tmp_path / "alone", values)
    for level in ("chunk", "batch", "sample"):
        held = [{"x": value, "t": torch.ones(1)} for value in values]  # the tensor keeps it from Arrow rows
        options = {"compression": "zstd", "compression_level": level, "compression_batch_size": 1}
        write_litdata(shard_writer, tmp_path / level, held, options)
    found = repr([value.tolist() if hasattr(value, "tolist") else value for value in values])
    for folder, name in (("beside", "1"), ("alone", "value"), ("chunk", "x"), ("batch", "x"), ("sample", "x")):
        feature = LitData(str(tmp_path / folder), PLAIN).schema()[name]
        assert (feature.dtype, feature.shape, feature.media) == (expected.dtype, expected.shape, expected.media)
        rows, bad = read(tmp_path / folder)
        assert (repr([row[name] for row in rows]), bad) == (found, [])
    assert (tmp_path / "batch" / "chunk-0-0.bin").read_bytes()[:4] == b"LDFZ"
    assert (tmp_path / "chunk" / "chunk-0-0.zstd.bin").exists()


def test_int64_lists_are_kept_where_asked(tmp_path: Path, shard_writer: Peer) -> None:
    """The same values, in the plain TensorFlow form."""
    write_litdata(shard_writer, tmp_path, [(np.arange(2), 1)])
    schema = LitData(str(tmp_path), SourceOptions(int64_lists=True)).schema()
    assert [feature.kind for feature in schema] == ["int64", "int64"]


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_token_ids_are_cut_to_blocks(
    tmp_path: Path, shard_writer: Peer, monkeypatch: pytest.MonkeyPatch, compression: str | None
) -> None:
    """Within each chunk, in several units where it is large; what is left over is noted. Without a length, by item."""
    monkeypatch.setattr(item_units, "UNIT_NBYTES", 50)
    monkeypatch.setattr(litdata_blocks, "PIECE_NBYTES", 40)
    documents = [torch.arange(10 + i, dtype=torch.int32) + 100 * i for i in range(5)]
    options = {"chunk_size": 33, "compression": compression, "compression_level": "chunk" if compression else None}
    write_litdata(shard_writer, tmp_path, documents, options, tokens=True)
    index = json.loads((tmp_path / "index.json").read_text())
    flat = iter(torch.cat(documents).tolist())
    expected: list[list[int]] = []
    left = 0
    for chunk in index["chunks"]:
        ids = [next(flat) for _ in range(chunk["dim"])]
        expected += [ids[at : at + 4] for at in range(0, len(ids) - 3, 4)]
        left += len(ids) % 4
    asked = SourceOptions(seq_len=4)
    source = LitData(str(tmp_path), asked)
    assert source.schema().features == (Feature("tokens", "bytes", "int32", (4,)),)
    assert read(tmp_path, asked) == ([{"tokens": ids} for ids in expected], [])
    assert left
    assert source.notes() == [f"{left} token ids at the ends of chunks fill no sample, and are left out"]
    assert len(source.units()) > (len(index["chunks"]) if compression is None else 1)
    assert read(tmp_path) == ([{"tokens": ids.tolist()} for ids in documents], [])


def test_rows_may_lack_values(tmp_path: Path, shard_writer: Peer) -> None:
    """As the index says of a key; structs are flattened, images told."""
    rows = [{"a": {"b": i}, "t": None if i == 1 else f"t{i}", "p": PNG} for i in range(6)]
    write_litdata(shard_writer, tmp_path, rows)
    schema = LitData(str(tmp_path), PLAIN).schema()
    assert [(one.name, one.optional, one.media) for one in schema] == [
        ("a.b", False, ""), ("t", True, ""), ("p", False, "image"),
    ]  # fmt: skip
    assert read(tmp_path) == ([{"a.b": row["a"]["b"], "t": row["t"], "p": PNG} for row in rows], [])


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([({1, 2}, 1)], "'0': its format 'pickle' means pickles, which are never unpickled"),
        ([(torch.ones(2, dtype=torch.complex64), 1)], "'0': its arrays are of LitData's dtype 5"),
        ([(torch.ones(2, 2, dtype=torch.complex64), 1)], "'0': its arrays are of LitData's dtype 5"),
        ([(torch.ones(2, 1),), (torch.ones(2, 2),)], r"'0': arrays of shapes \(2, 1\) to \(2, 2\): only the first"),
    ],
)
def test_f57_what_no_feature_holds_is_refused_by_name(
    tmp_path: Path, shard_writer: Peer, items: list[object], reason: str
) -> None:
    """The message names the leaf."""
    write_litdata(shard_writer, tmp_path, items)
    with pytest.raises(SourceError, match=reason):
        LitData(str(tmp_path), PLAIN).schema()


def test_a_data_set_is_told_and_read_from_a_url(tmp_path: Path, shard_writer: Peer) -> None:
    """As from a path: items in parts of a chunk, packed chunks, rows and token ids."""
    rows = [{"x": i, "t": f"text {i}"} for i in range(6)]
    write_litdata(shard_writer, tmp_path / "items", [item(i) for i in range(6)])
    write_litdata(shard_writer, tmp_path / "rows", rows)
    write_litdata(
        shard_writer, tmp_path / "packed", list(range(6)), {"compression": "zstd", "compression_level": "chunk"}
    )
    write_litdata(shard_writer, tmp_path / "tokens", [torch.arange(3)] * 2, tokens=True)
    for path in tmp_path.glob("*/*"):
        fsspec.filesystem("memory").pipe(f"/litdata/{path.parent.name}/{path.name}", path.read_bytes())
    expected = {"items": [row(i) for i in range(6)], "rows": rows, "packed": [{"value": i} for i in range(6)]}
    for folder, found in {**expected, "tokens": [{"tokens": [0, 1, 2]}] * 2}.items():
        url = f"memory://litdata/{folder}"
        assert open_source(url, None, PLAIN).kind == open_source(str(tmp_path / folder), None, PLAIN).kind == "litdata"
        assert read(url) == (found, [])


def test_large_chunks_are_read_in_parts(tmp_path: Path, shard_writer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units share the items of a chunk that is not packed."""
    monkeypatch.setattr(item_units, "UNIT_NBYTES", 100)
    monkeypatch.setattr(item_table, "PIECE_NBYTES", 20)
    write_litdata(shard_writer, tmp_path, [item(i) for i in range(30)], {"chunk_size": 30})
    assert len(LitData(str(tmp_path), PLAIN).units()) > 5
    assert read(tmp_path) == ([row(i) for i in range(30)], [])
