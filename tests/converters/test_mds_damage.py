"""Test MDS data sets that are large, incomplete or damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path

import fsspec
import numpy as np
import pytest
from peer import Peer
from shard_writers import edit_shard, set_u32, write_mds
from source_contract import Row, rows_of

from datafeed.converters import item_table, item_units
from datafeed.converters.encode import read_chunks
from datafeed.converters.mds import Mds
from datafeed.converters.opening import open_source
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, EmptySource, SourceError

pytestmark = pytest.mark.peers

PLAIN = SourceOptions()
ROWS = [{"id": number, "text": f"é{number}"} for number in range(12)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, shard_writer: Peer) -> dict[str, dict[str, bytes]]:
    """Return the files of small data sets, written once: by their options."""
    folder = tmp_path_factory.mktemp("written")
    options: dict[str, dict[str, object]] = {
        "raw": {"size_limit": 330},
        "hashed": {"size_limit": 400, "hashes": ["sha1", "xxh3_64"]},
        "zstd": {"compression": "zstd"},
    }
    for name, given in options.items():
        write_mds(shard_writer, folder / name, {"id": "int", "text": "str"}, ROWS, given)
    return {name: {file.name: file.read_bytes() for file in (folder / name).iterdir()} for name in options}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    """Write the files of a data set."""
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def read(path: Path | str) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items."""
    source, bad = Mds(str(path), PLAIN), []
    features = source.schema().features
    rows = [row for chunk in read_chunks(source, source.units(), bad.append) for row in rows_of(features, chunk)]
    return rows, bad


Written = dict[str, dict[str, bytes]]


def test_large_shards_are_read_in_parts(tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units share the samples of a raw shard; a chunk is a few MB; digests need a shard as a whole."""
    monkeypatch.setattr(item_units, "UNIT_NBYTES", 100)
    monkeypatch.setattr(item_table, "PIECE_NBYTES", 20)
    for name in written:
        folder = put(tmp_path / name, written[name])
        source = Mds(str(folder), PLAIN)
        shards = len(written[name]) - 1
        assert len(source.units()) == (shards if name != "raw" else 5)
        chunks = [chunk for unit in source.units() for chunk in source.read(unit, pytest.fail)]
        assert len(chunks) == len(ROWS)
        assert read(folder) == (ROWS, [])


def test_a_shard_of_another_size_is_a_bad_item(tmp_path: Path, written: Written) -> None:
    """Cut or grown, raw or packed; the other shards are read."""
    for name, change in (("raw", -1), ("raw", 1), ("hashed", -5)):
        folder = put(tmp_path / name, written[name])
        data = written[name]["shard.00000.mds"]
        (folder / "shard.00000.mds").write_bytes(data[:change] if change < 0 else data + b"x")
        rows, bad = read(folder)
        assert rows == ROWS[len(ROWS) - len(rows) :]
        assert 0 < len(rows) < len(ROWS)
        assert [item.where for item in bad] == [f"{folder}/shard.00000.mds"]
        assert f"its index says {len(data)} bytes, it has {len(data) + change}" in bad[0].reason


def test_a_shard_that_is_not_there_is_a_bad_item(tmp_path: Path, written: Written) -> None:
    """It is named; where it is the only one, that is an error."""
    folder = put(tmp_path / "x", written["raw"])
    (folder / "shard.00001.mds").unlink()
    rows, bad = read(folder)
    assert len(rows) < len(ROWS)
    assert "shard.00001.mds" in bad[0].where
    assert bad[0].reason == "its index names it, and it is not there"
    folder = put(tmp_path / "y", {"index.json": written["zstd"]["index.json"]})
    with pytest.raises(SourceError, match=r"no sample can be read; .*shard.00000.mds.*not there"):
        read(folder)


def test_f45_a_flipped_byte_is_found_by_a_digest(tmp_path: Path, written: Written) -> None:
    """Those of hashlib are compared, others noted."""
    folder = put(tmp_path / "x", written["hashed"])
    data = bytearray(written["hashed"]["shard.00000.mds"])
    data[-1] ^= 1
    (folder / "shard.00000.mds").write_bytes(data)
    rows, bad = read(folder)
    assert rows == ROWS[len(ROWS) - len(rows) :]
    assert "its sha1 is" in bad[0].reason
    assert Mds(str(folder), PLAIN).notes() == ["digests not compared, as Python's hashlib lacks them: xxh3_64"]


def test_f53_a_packed_shard_unpacks_to_the_size_that_its_index_says(tmp_path: Path, written: Written) -> None:
    """More or less is an error before it is held; so is a stream that is cut."""
    whole = written["zstd"]
    raw = json.loads(whole["index.json"])["shards"][0]["raw_data"]
    for change, reason in ((-1, "it has more"), (1, f"it has {raw['bytes']}")):
        folder = put(tmp_path / "x", whole)
        edit_shard(folder, {"raw_data": {**raw, "bytes": raw["bytes"] + change}})
        assert reason in read(folder)[1][0].reason
    folder = put(tmp_path / "x", whole)
    packed = whole["shard.00000.mds.zstd"][:-9]
    (folder / "shard.00000.mds.zstd").write_bytes(packed)
    edit_shard(folder, {"zip_data": {"basename": "shard.00000.mds.zstd", "bytes": len(packed), "hashes": {}}})
    with pytest.raises(SourceError, match="ends too early"):
        read(folder)


def test_wrong_places_are_bad_items(tmp_path: Path, written: Written) -> None:
    """A place that falls, that lies in the table, or past the end: the samples on both sides are lost, no others."""
    for value in (10**6, 2**32 - 1, 7):
        folder = put(tmp_path / "x", written["raw"])
        set_u32(folder / "shard.00000.mds", 8, value)
        rows, bad = read(folder)
        assert rows == ROWS[2:]
        assert [item.where for item in bad] == [f"{folder}/shard.00000.mds: sample {number}" for number in (0, 1)]
        assert all("it should fill the bytes" in item.reason for item in bad)


def test_wrong_sizes_are_bad_items(tmp_path: Path, written: Written) -> None:
    """A text that would leave its sample."""
    folder = put(tmp_path / "x", written["raw"])
    data = written["raw"]["shard.00000.mds"]
    set_u32(folder / "shard.00000.mds", int.from_bytes(data[8:12], "little"), 2**31)
    rows, bad = read(folder)
    assert rows == [ROWS[0], *ROWS[2:]]
    assert [item.reason for item in bad] == [f"its 2 fields need {2**31 + 12} bytes, it has 15"]


def test_a_wrong_count_is_a_bad_item(tmp_path: Path, written: Written) -> None:
    """The shard's own, or that of its index."""
    folder = put(tmp_path / "x", written["raw"])
    set_u32(folder / "shard.00000.mds", 0, 2**32 - 1)
    rows, bad = read(folder)
    assert rows == ROWS[len(ROWS) - len(rows) :]
    assert "items, it says 4294967295" in bad[0].reason
    edit_shard(folder, {"samples": 2**32 - 1})
    assert "cut short" in read(folder)[1][0].reason


def test_damaged_bytes_are_errors_or_bad_items(tmp_path: Path, written: Written) -> None:
    """Whatever byte is another."""
    draw = random.Random(0)
    for _ in range(300):
        folder = put(tmp_path / "x", written["raw"])
        name = draw.choice(sorted(written["raw"]))
        data = bytearray(written["raw"][name])
        data[draw.randrange(len(data))] = draw.randrange(256)
        (folder / name).write_bytes(data)
        try:
            rows, bad = read(folder)
        except SourceError:
            continue
        assert len(rows) + len(bad) <= len(ROWS)


@pytest.mark.parametrize("name", ["../shard.00000.mds", "/etc/passwd", "a/../../b", "", "memory://x", "a\0b", None])
def test_f55_names_that_lead_elsewhere_are_refused(tmp_path: Path, written: Written, name: object) -> None:
    """An index is untrusted; a folder below its own is where merged data sets have their shards."""
    folder = put(tmp_path / "x", written["raw"])
    edit_shard(folder, {"raw_data": {"basename": name, "bytes": 5, "hashes": {}}})
    with pytest.raises(SourceError, match="expected the name of a file in its own folder"):
        read(folder)


def test_shards_in_folders_below_are_found(tmp_path: Path, written: Written) -> None:
    """As merge_index names them; the indexes that were merged still lie beside the shards, and do not count."""
    merged = []
    for name in ("00000", "00001"):
        put(tmp_path / name, written["raw"])
        for shard in json.loads(written["raw"]["index.json"])["shards"]:
            shard["raw_data"]["basename"] = f"{name}/{shard['raw_data']['basename']}"
            merged.append(shard)
    assert read(tmp_path) == (ROWS + ROWS, [])
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": merged}))
    assert read(tmp_path) == (ROWS + ROWS, [])
    assert {unit.files[0].path for unit in Mds(str(tmp_path), PLAIN).units()} == {
        str(path) for path in tmp_path.glob("*/*.mds")
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is no index.json that can be read"),
        ("[]", "expected a JSON object, found list"),
        ('{"version": 1, "shards": []}', "expected version 2, found 1"),
        ('{"version": 2, "shards": [{"format": "csv"}]}', "expected shards of format 'mds', found 'csv'"),
        ('{"version": 2, "shards": [{"format": "mds"}]}', "is no index of MDS shards: KeyError: 'raw_data'"),
        ('{"version": 2, "shards": 3}', "is no index of MDS shards: TypeError: expected a list"),
        ('{"version": 2, "shards": []}', "its index names no shard"),
    ],
)
def test_an_index_that_is_none_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """By its name and what is wrong with it."""
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(SourceError, match=reason):
        Mds(str(tmp_path), PLAIN).units()


def test_shards_without_an_index_are_refused(tmp_path: Path, written: Written) -> None:
    """Their folder is told from their names; so is what is missing."""
    put(tmp_path / "x", {"shard.00000.mds": written["raw"]["shard.00000.mds"]})
    source = open_source(str(tmp_path / "x"), None, PLAIN)
    assert source.kind == "mds"
    with pytest.raises(EmptySource, match=r"no index\.json"):
        source.units()


def test_shards_of_other_columns_are_refused(tmp_path: Path, written: Written) -> None:
    """Both are named."""
    folder = put(tmp_path / "x", written["raw"])
    edit_shard(folder, {"column_encodings": ["int32", "str"]}, 1)
    with pytest.raises(SourceError, match=r"the shards' columns differ: .*shard\.00000\.mds has .*'int'.*shard\.00001"):
        Mds(str(folder), PLAIN).schema()


def test_arrays_of_a_later_shape_are_bad_items(
    tmp_path: Path, shard_writer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first samples tell the shape; a dtype, a rank or a size that they do not have does not fit."""
    monkeypatch.setattr(item_units, "_SNIFFED_ROWS", 2)
    shapes = [("int32", (2, 3))] * 2 + [("int32", (3, 3)), ("int32", (6,)), ("int8", (2, 3)), ("int32", (2, 3))]
    made = [{"x": np.ones(shape, kind)} for kind, shape in shapes]
    write_mds(shard_writer, tmp_path / "x", {"x": "ndarray"}, made)
    write_mds(shard_writer, tmp_path / "y", {"x": "ndarray"}, [{"x": np.ones((2, 1 + i))} for i in range(2)])
    rows, bad = read(tmp_path / "x")
    assert rows == [{"x": [[1] * 3] * 2}] * 3
    assert [item.reason for item in bad] == [
        "'x': expected shape (2, 3), found (3, 3)",
        "'x': expected an array of 2 dimensions, found 1",
        "'x': expected an array of int32, found int8",
    ]
    with pytest.raises(SourceError, match=r"'x': arrays of shapes \(2, 1\) to \(2, 2\): only the first dimension"):
        Mds(str(tmp_path / "y"), PLAIN).schema()


def test_a_data_set_is_told_and_read_from_a_url(written: Written) -> None:
    """As from a path."""
    for name, files in written.items():
        for file, data in files.items():
            fsspec.filesystem("memory").pipe(f"/mds/{name}/{file}", data)
        assert open_source(f"memory://mds/{name}", None, PLAIN).kind == "mds"
        assert read(f"memory://mds/{name}") == (ROWS, [])
