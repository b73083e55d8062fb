"""Test LitData data sets that are damaged, incomplete, or of a form that is not read."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from peer import Peer
from shard_writers import set_u32, write_litdata
from source_contract import Row, rows_of

from datafeed.converters.encode import read_chunks
from datafeed.converters.litdata import LitData
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, EmptySource, SourceError

pytestmark = pytest.mark.peers

PLAIN = SourceOptions()


def read(path: Path | str, options: SourceOptions = PLAIN) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items."""
    source, bad = LitData(str(path), options), []
    features = source.schema().features
    rows = [row for chunk in read_chunks(source, source.units(), bad.append) for row in rows_of(features, chunk)]
    return rows, bad


def item(number: int) -> tuple[object, ...]:
    """Return an item: a tuple, so that LitData keeps it leaf by leaf."""
    return (number, {"text": f"é{number}", "few": np.arange(number % 3, dtype=np.uint16)})


def row(number: int) -> Row:
    """Return the same as a source gives it back."""
    return {"0": number, "1.text": f"é{number}", "1.few": list(range(number % 3))}


def edit(folder: Path, **config: object) -> None:
    """Change what an index says of all chunks."""
    index = json.loads((folder / "index.json").read_text())
    index["config"].update(config)
    (folder / "index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"encryption": {"algorithm": "fernet"}}, "they are encrypted"),
        ({"item_loader": "ParquetLoader"}, "item loader 'ParquetLoader': convert its parquet files"),
        ({"compression": "lz4"}, "packed with 'lz4', expected zstd"),
        ({"compression": "zstd", "compression_level": "frame"}, "compression_level is 'frame'"),
        ({"data_format": ["int"]}, "its data_spec has 3 leaves, its data_format 1"),
        ({"data_format": ["int", "str", "json"]}, "'1.few': its format 'json' means LitData's own form"),
        ({"data_format": ["int", "str", "odd"]}, "'1.few': its format 'odd' is unknown"),
        ({"data_spec": "[1, 2]"}, "expected an object, found 2"),
        ({"data_spec": '[1, {"type": "x.Y", "context": "", "children_spec": []}]'}, "its items hold a 'x.Y'"),
    ],
)
def test_what_an_index_says_is_refused_by_name(
    tmp_path: Path, shard_writer: Peer, config: dict[str, object], reason: str
) -> None:
    """Before any chunk is read."""
    write_litdata(shard_writer, tmp_path, [item(0)])
    edit(tmp_path, **config)
    with pytest.raises(SourceError, match=reason):
        LitData(str(tmp_path), PLAIN).units()


def test_chunks_that_are_not_as_their_index_says_are_bad_items(tmp_path: Path, shard_writer: Peer) -> None:
    """One that is cut, one of another count, one that is not there; a wrong place is one of an item."""
    write_litdata(shard_writer, tmp_path, [item(i) for i in range(20)])
    chunks = sorted(tmp_path.glob("*.bin"))
    chunks[0].write_bytes(chunks[0].read_bytes()[:-1])
    set_u32(chunks[1], 0, 5)
    chunks[2].unlink()
    set_u32(chunks[3], 8, 10**6)
    rows, bad = read(tmp_path)
    assert rows == [row(i) for i in (14, 15, 16, 17, 18, 19)]
    assert [one.where.rpartition("/")[2] for one in bad] == [
        "chunk-0-0.bin", "chunk-0-1.bin", "index.json: chunk-0-2.bin", "chunk-0-3.bin: item 0", "chunk-0-3.bin: item 1",
    ]  # fmt: skip
    for one, reason in zip(bad, ("bytes, it has", "4 items, it says 5", "not there", "fill", "fill"), strict=True):
        assert reason in one.reason


@pytest.mark.parametrize("level", ["plain", "chunk", "batch", "sample", "rows", "tokens"])
def test_damaged_bytes_are_errors_or_bad_items(tmp_path: Path, shard_writer: Peer, level: str) -> None:
    """Whatever byte is another, however items are kept."""
    held: list[object] = [{"x": i, "t": torch.ones(1 + i % 2)} for i in range(6)]
    if level in {"rows", "tokens"}:
        held = [torch.arange(9)] * 6 if level == "tokens" else [{"x": i, "t": f"text {i}"} for i in range(6)]
    packed = {"compression": "zstd", "compression_level": level} if level in {"chunk", "batch", "sample"} else {}
    write_litdata(shard_writer, tmp_path / "x", held, {"chunk_size": 60, **packed}, tokens=level == "tokens")
    whole = {path: path.read_bytes() for path in (tmp_path / "x").iterdir()}
    draw = random.Random(0)
    asked = SourceOptions(seq_len=3 if level == "tokens" else None)
    good, _ = read(tmp_path / "x", asked)
    for _ in range(150):
        path = draw.choice(sorted(whole))
        data = bytearray(whole[path])
        data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data)
        try:
            rows, _ = read(tmp_path / "x", asked)
        except SourceError:
            rows = []
        assert len(rows) <= len(good)
        path.write_bytes(whole[path])


def test_f55_names_that_lead_elsewhere_are_refused(tmp_path: Path, shard_writer: Peer) -> None:
    """An index is untrusted."""
    write_litdata(shard_writer, tmp_path / "x", [item(0)])
    index = json.loads((tmp_path / "x" / "index.json").read_text())
    index["chunks"][0]["filename"] = "../x/chunk-0-0.bin"
    (tmp_path / "x" / "index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match="expected the name of a file in its own folder"):
        LitData(str(tmp_path / "x"), PLAIN).units()


def test_an_index_without_chunks_is_an_empty_source(tmp_path: Path, shard_writer: Peer) -> None:
    """There is nothing to convert."""
    write_litdata(shard_writer, tmp_path, [item(0)])
    index = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps({**index, "chunks": []}))
    with pytest.raises(EmptySource, match="its chunks hold no sample"):
        LitData(str(tmp_path), PLAIN).units()


def test_a_frame_that_cannot_be_unpacked_loses_its_items_alone(tmp_path: Path, shard_writer: Peer) -> None:
    """Each of them is a bad item; those of the other frames are read."""
    held = [{"x": number, "t": torch.ones(1)} for number in range(6)]
    options = {"chunk_size": 6, "compression": "zstd", "compression_level": "batch", "compression_batch_size": 2}
    write_litdata(shard_writer, tmp_path, held, options)
    chunk = tmp_path / "chunk-0-0.bin"
    data = bytearray(chunk.read_bytes())
    second = data.index(b"\x28\xb5\x2f\xfd", data.index(b"\x28\xb5\x2f\xfd") + 1)
    data[second] ^= 1
    chunk.write_bytes(data)
    rows, bad = read(tmp_path)
    assert [row["x"] for row in rows] == [0, 1, 4, 5]
    assert [one.where for one in bad] == [f"{chunk}: item 2", f"{chunk}: item 3"]
    source = LitData(str(tmp_path), PLAIN)
    found = [one.where(row) for one in source.read(source.units()[0], bad.append) for row in range(one.rows)]
    assert found == [f"{chunk}: item {number}" for number in (0, 1, 4, 5)]


def test_rows_of_another_number_than_the_index_says_are_told(tmp_path: Path, shard_writer: Peer) -> None:
    """Those that are there are read."""
    write_litdata(shard_writer, tmp_path, [{"x": number, "t": "a"} for number in range(3)])
    index = json.loads((tmp_path / "index.json").read_text())
    index["chunks"][0]["chunk_size"] = 4
    (tmp_path / "index.json").write_text(json.dumps(index))
    rows, bad = read(tmp_path)
    assert len(rows) == 3
    assert [one.reason for one in bad] == ["its index says 4 items, it has 3 rows"]


def test_token_ids_of_another_number_than_the_index_says_are_a_bad_item(tmp_path: Path, shard_writer: Peer) -> None:
    """More of them would be read past their end, fewer lost."""
    write_litdata(shard_writer, tmp_path, [torch.arange(8)] * 6, {"chunk_size": 16}, tokens=True)
    index = json.loads((tmp_path / "index.json").read_text())
    index["chunks"][1]["dim"] = 12
    (tmp_path / "index.json").write_text(json.dumps(index))
    rows, bad = read(tmp_path, SourceOptions(seq_len=4))
    assert len(rows) == 2 * 4
    assert [one.reason for one in bad] == ["its index says 144 bytes, 12 token ids of 2 items need 112"]
