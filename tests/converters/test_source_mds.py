"""Test reading MDS shards, written by MosaicML Streaming's own writer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peer import Peer
from shard_writers import edit_shard, write_mds
from source_contract import Row, SourceContract, check_form, rows_of

from datafeed import Dataset
from datafeed.converters.convert import convert
from datafeed.converters.encode import read_chunks
from datafeed.converters.mds import Mds
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, SourceError
from datafeed.schema import Feature

pytestmark = pytest.mark.peers

PLAIN = SourceOptions()
COLUMNS = {"id": "int", "text": "str", "few": "ndarray:uint16"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
JPEG = b"\xff\xd8\xff\xe0" + bytes(20)


def samples(numbers: range) -> list[dict[str, object]]:
    """Return samples of `COLUMNS`."""
    return [{"id": i, "text": f"é{i}", "few": np.arange(1 + i % 3, dtype=np.uint16)} for i in numbers]


def row(number: int) -> Row:
    """Return the same as a source gives it back: columns sorted, as the writer sorts them."""
    return {"few": list(range(1 + number % 3)), "id": number, "text": f"é{number}"}


def read(path: Path | str) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items, checking the form of every column."""
    source, bad = Mds(str(path), PLAIN), []
    schema, rows = source.schema(), []
    for chunk in read_chunks(source, source.units(), bad.append):
        for feature in schema:
            check_form(feature, chunk.columns[feature.name], chunk.rows)
        rows += rows_of(schema.features, chunk)
    return rows, bad


class TestMds(SourceContract):
    """Hold a folder of two data sets to what every source promises."""

    @pytest.fixture(autouse=True)
    def _writer(self, shard_writer: Peer) -> None:
        self.peer = shard_writer

    def open(self, path: Path) -> Mds:
        """Open it."""
        return Mds(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write raw shards into one folder, packed ones with digests into another."""
        write_mds(self.peer, folder / "train", COLUMNS, samples(range(9)), {"size_limit": 400})
        packed = {"size_limit": 400, "compression": "zstd", "hashes": ["sha1", "xxh64"]}
        write_mds(self.peer, folder / "val", COLUMNS, samples(range(9, 16)), packed)
        assert len(list(folder.glob("*/shard.*"))) == 4
        return [row(number) for number in range(16)]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Put a byte that begins no character into the text of the second sample."""
        shard = folder / "train" / "shard.00000.mds"
        data = shard.read_bytes()
        shard.write_bytes(data.replace("é1".encode(), b"\xff\xa91"))
        return "shard.00000.mds: sample 1", "'text': it is text and no UTF-8", [row(i) for i in range(16) if i != 1]


def array(dtype: str, *shape: int) -> np.ndarray:
    """Return an array of numbers that differ."""
    return (np.arange(int(np.prod(shape))) + 1).astype(dtype).reshape(shape)


@pytest.mark.parametrize(
    ("encoding", "values", "expected"),
    [
        ("bytes", [b"", b"\xff\0"], Feature("x", "bytes", "bytes")),
        ("bytes", [PNG, PNG], Feature("x", "bytes", "bytes", media="image/png")),
        ("str", ["", "🦙é"], Feature("x", "bytes", "utf8")),
        ("int", [-(2**63), 2**63 - 1], Feature("x", "int64", "int64")),
        ("uint8", [0, 255], Feature("x", "int64", "uint8")),
        ("uint64", [0, 2**64 - 1], Feature("x", "bytes", "uint64")),
        ("int16", [-(2**15), 7], Feature("x", "int64", "int16")),
        ("float16", [0.5, -2.0], Feature("x", "bytes", "float16")),
        ("float32", [0.25, float("inf")], Feature("x", "float", "float32")),
        ("float64", [0.1, -0.0], Feature("x", "bytes", "float64")),
        ("str_int", [-1, 2**62], Feature("x", "int64", "int64")),
        ("str_float", [0.1, float("-inf")], Feature("x", "bytes", "float64")),
        ("jpeg", [JPEG, JPEG + b"x"], Feature("x", "bytes", "bytes", media="image/jpeg")),
        ("png", [PNG, JPEG], Feature("x", "bytes", "bytes", media="image")),
        ("png", [PNG, b"none"], Feature("x", "bytes", "bytes")),
        ("jpegarray", [[JPEG], [JPEG, JPEG + b"x"]], Feature("x", "bytes", "bytes", (None,), media="image/jpeg")),
        ("ndarray", [array("int32", 2, 3)] * 2, Feature("x", "bytes", "int32", (2, 3))),
        ("ndarray", [array("float64", 300, 2), array("float64", 1, 2)], Feature("x", "bytes", "float64", (None, 2))),
        ("ndarray:int8", [array("int8", 3), array("int8", 70_000)], Feature("x", "bytes", "int8", (None,))),
        ("ndarray:float32", [array("float32", 2, 1)] * 2, Feature("x", "float", "float32", (2, 1))),
        ("ndarray:uint16:2,3", [array("uint16", 2, 3), array("uint16", 2, 3)], Feature("x", "bytes", "uint16", (2, 3))),
    ],
)
def test_encodings_come_back_with_their_values(
    tmp_path: Path, shard_writer: Peer, encoding: str, values: Sequence[Any], expected: Feature
) -> None:
    """Alone, and beside columns of fixed and of other sizes."""
    beside = {"a": "str", "b": "int32", "z": "uint8"}
    made = [{"x": value, "a": "ab" * i, "b": i, "z": i} for i, value in enumerate(values)]
    write_mds(shard_writer, tmp_path / "alone", {"x": encoding}, made)
    write_mds(shard_writer, tmp_path / "beside", {**beside, "x": encoding}, made)
    for folder in ("alone", "beside"):
        assert Mds(str(tmp_path / folder), PLAIN).schema()["x"] == expected
        rows, bad = read(tmp_path / folder)
        found = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
        assert repr([row["x"] for row in rows]) == repr(found)
        assert not bad
    assert [(row["a"], row["b"], row["z"]) for row in rows] == [("ab" * i, i, i) for i in range(len(values))]


def test_json_and_decimals_are_text(tmp_path: Path, shard_writer: Peer) -> None:
    """JSON has the media that says so; a decimal keeps its digits."""
    made = [{"j": {"a": [1, None]}, "d": b"1.50"}, {"j": [], "d": b"-3"}]
    write_mds(shard_writer, tmp_path, {"j": "json", "d": "str_decimal"}, made, {"exist_ok": True})
    schema = Mds(str(tmp_path), PLAIN).schema()
    assert [(feature.dtype, feature.media) for feature in schema] == [("utf8", ""), ("utf8", "json")]
    assert read(tmp_path)[0] == [{"d": "1.50", "j": '{"a": [1, null]}'}, {"d": "-3", "j": "[]"}]


def test_lists_of_images_are_read(tmp_path: Path, shard_writer: Peer) -> None:
    """An empty one too; the writer takes them encoded already."""
    lists = [[], [PNG], [PNG, PNG + b"x"]]
    made = []
    for items in lists:
        sizes = np.array([0, len(items), *map(len, items)], np.uint32)
        made.append({"x": sizes.tobytes() + b"".join(items)})
    made.insert(1, {"x": made[2]["x"][:-1]})
    write_mds(shard_writer, tmp_path, {"x": "list[png]"}, made, {"exist_ok": True})
    rows, bad = read(tmp_path)
    assert [row["x"] for row in rows] == lists
    assert [(item.where, item.reason) for item in bad] == [
        (f"{tmp_path}/shard.00000.mds: sample 1", f"'x': a list of bytes does not fill its {8 + 8 + 2 * 28} bytes")
    ]


@pytest.mark.parametrize(
    ("encoding", "value", "reason"),
    [
        ("pkl", {1}, "'x': its encoding 'pkl' means pickles, which are never unpickled"),
        ("pil", b"raw", "'x': its encoding 'pil' means raw pixels"),
        ("list[pil]", b"raw", "write them as list"),
    ],
)
def test_f57_encodings_are_refused_by_name(
    tmp_path: Path, shard_writer: Peer, encoding: str, value: object, reason: str
) -> None:
    """Before anything is read."""
    write_mds(shard_writer, tmp_path, {"x": encoding}, [{"x": value}], {"exist_ok": True})
    for need in (Mds(str(tmp_path), PLAIN).schema, Mds(str(tmp_path), PLAIN).units):
        with pytest.raises(SourceError, match=reason):
            need()


@pytest.mark.parametrize("compression", ["zstd:7", "gz", "bz2", "br", "snappy"])
def test_packed_shards_are_read_or_refused_by_name(tmp_path: Path, shard_writer: Peer, compression: str) -> None:
    """Those that need a library of their own are refused, unless the raw shard lies beside them."""
    write_mds(
        shard_writer, tmp_path / "a", COLUMNS, samples(range(200)), {"compression": compression, "hashes": ["md5"]}
    )
    if compression in {"br", "snappy"}:
        with pytest.raises(SourceError, match=f"packed with '{compression}' are not read, only zstd, gz, bz2"):
            Mds(str(tmp_path), PLAIN).units()
        write_mds(shard_writer, tmp_path / "b", COLUMNS, samples(range(200)))
        raw = tmp_path / "b" / "shard.00000.mds"
        edit_shard(tmp_path / "a", {"raw_data": {"basename": raw.name, "bytes": raw.stat().st_size, "hashes": {}}})
        raw.rename(tmp_path / "a" / raw.name)
    assert read(tmp_path / "a") == ([row(i) for i in range(200)], [])


def test_texts_that_are_utf8_only_together_are_bad_items(tmp_path: Path, shard_writer: Peer) -> None:
    """A character may not begin in one sample and end in the next."""
    made = [{"x": value} for value in (b"a", b"b\xc3", b"\xa9c", b"", "é".encode())]
    write_mds(shard_writer, tmp_path, {"x": "str"}, made, {"exist_ok": True})
    rows, bad = read(tmp_path)
    assert [row["x"] for row in rows] == ["a", "", "é"]
    assert [(item.where.rpartition(" ")[2], item.data[4:]) for item in bad] == [("1", b"b\xc3"), ("2", b"\xa9c")]


def test_a_converted_data_set_reads_back_the_same(tmp_path: Path, shard_writer: Peer) -> None:
    """From shards to dataset."""
    write_mds(shard_writer, tmp_path / "raw", COLUMNS, samples(range(50)), {"size_limit": 600, "compression": "gz"})
    assert convert(tmp_path / "raw", tmp_path / "out").records == 50
    dataset = Dataset(tmp_path / "out")
    found = [dataset[number] for number in range(50)]
    assert [{**sample, "few": sample["few"].tolist()} for sample in found] == [row(number) for number in range(50)]
