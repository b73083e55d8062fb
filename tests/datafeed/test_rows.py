"""Test samples written as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny

from datafeed.commands.rows import json_lines, json_objects
from datafeed.commands.values import to_json
from datafeed.commit import commit
from datafeed.dataset import Dataset
from datafeed.errors import CorruptFrame
from datafeed.header import make_header
from datafeed.schema import Schema, stored
from datafeed.storage import open_store

SCHEMA = Schema(
    [
        stored("100 %s", "int64"),
        stored('a "b"\n', "utf8"),
        stored("blob", "bytes"),
        stored("score", "float32"),
        stored("flag", "bool", optional=True),
        stored("pair", "float32", (2,), optional=True),
        stored("tags", "utf8", (None,)),
        stored("parts", "bytes", (2,)),
        stored("many", "float32", (None,), optional=True),
        stored("gone", "utf8", optional=True),
    ]
)


def _record(number: int) -> bytes:
    features: dict[str, tiny.Value] = {
        "100 %s": [number - 3],
        'a "b"\n': f"line\nend %d \u2028 {number}".encode(),
        "blob": bytes(range(number)),
        "score": [(1.5, float("nan"), float("inf"))[number % 3]],
        "tags": [b"\n", "zw\u00f6lf".encode()][: 1 + number % 2],
        "parts": [b"", b"\xff"],
    }
    if number % 2:
        features |= {"flag": [number % 4 == 1], "pair": [0.5, float("-inf")], "many": [1.0] * number, "gone": b""}
    return tiny.example(features)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Write 12 records of every kind of feature in 4 blocks."""
    store = open_store(tmp_path)
    header = make_header(SCHEMA, block_size=4096, level=3, provenance={"source": "rows"})
    blocks = [[_record(number) for number in range(start, start + 3)] for start in range(0, 12, 3)]
    info, columns = tiny.write_shard(store, header, 0, blocks, last=True)
    commit(store, header, "zstd", [info], [columns])
    return str(tmp_path)


class _Counted(Dataset):
    """Count how often it is asked."""

    asked = 0

    def __getitem__(self, key: object) -> dict[str, object]:  # type: ignore[override]  # whatever it is asked for
        self.asked += 1
        return super().__getitem__(key)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("end", [0, 1, 3, 4, 11, 12])
def test_rows_are_the_samples_wherever_they_end(url: str, end: int) -> None:
    """Read by blocks, they are what each sample is by itself: values, order of names, what is missing."""
    dataset = Dataset(url)
    expected = [to_json(dataset[number]) for number in range(end)]
    assert list(json_objects(dataset, end)) == expected
    lines = list(json_lines(dataset, end))
    assert [json.loads(line) for line in lines] == expected
    assert lines == [json.dumps(sample) + "\n" for sample in expected]


def test_a_dataset_is_asked_once_a_block(url: str) -> None:
    """A record at a time would cost a parser's call each."""
    dataset = _Counted(url)
    assert len(list(json_lines(dataset, 12))) == 12
    assert dataset.asked == 4
    assert len(list(json_objects(dataset, 12))) == 12
    assert dataset.asked == 8


def test_records_without_features_are_empty_objects(tmp_path: Path) -> None:
    """A column of nothing does not tell how many there are."""
    store = open_store(tmp_path)
    header = make_header(Schema([]), block_size=4096, level=3, provenance={"source": "rows"})
    info, columns = tiny.write_shard(store, header, 0, [[tiny.example({})] * 3], last=True)
    commit(store, header, "zstd", [info], [columns])
    assert list(json_lines(Dataset(tmp_path), 2)) == ["{}\n"] * 2
    assert list(json_objects(Dataset(tmp_path), 3)) == [{}] * 3


def test_lines_before_a_damaged_block_are_given(url: str) -> None:
    """The blocks before it are whole, and nothing of it is taken for good."""
    dataset = Dataset(url)
    place = int(dataset.index.offset[2]) + 12
    path = Path(url, "shard-000000.tfrecord.zst")
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    lines = json_lines(Dataset(url), 12)
    assert [next(lines) for _ in range(6)] == [json.dumps(to_json(dataset[number])) + "\n" for number in range(6)]
    with pytest.raises(CorruptFrame, match="block 2"):
        next(lines)
