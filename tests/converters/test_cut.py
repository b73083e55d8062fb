"""Test how chunks become blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datafeed._native import Block, Encoder
from datafeed.columns import Column
from datafeed.converters.cut import Raw, cut_blocks
from datafeed.converters.source import Chunk
from datafeed.errors import BadItem, RecordTooLarge, SchemaError
from datafeed.schema import Schema, stored

SCHEMA = Schema([stored("blob", "bytes")])


def _chunk(blobs: list[bytes]) -> Chunk:
    offsets = np.cumsum([0, *map(len, blobs)], dtype=np.int64)
    return Chunk({"blob": Column(np.frombuffer(b"".join(blobs), np.uint8), offsets)}, len(blobs), lambda i: f"row {i}")


def _raise(item: BadItem) -> None:
    raise item


def _cut(chunks: list[Chunk], block_size: int) -> list[Raw]:
    features = list(SCHEMA)
    return list(cut_blocks(Encoder(features), features, chunks, block_size, _raise))


@settings(max_examples=60)
@given(st.lists(st.lists(st.binary(max_size=60), max_size=8), max_size=8), st.integers(1, 300))
def test_blocks_follow_the_rule_whatever_the_chunks(parts: list[list[bytes]], block_size: int) -> None:
    """A block takes records until one more would pass the size, at least one; chunk borders leave no trace."""
    framed = [_cut([_chunk([blob])], 1)[0].raw for part in parts for blob in part]
    expected: list[list[bytes]] = []
    for record in framed:
        if expected and sum(map(len, expected[-1])) + len(record) <= block_size:
            expected[-1].append(record)
        else:
            expected.append([record])
    blocks = _cut([_chunk(part) for part in parts], block_size)
    assert [block.raw for block in blocks] == [b"".join(records) for records in expected]
    assert [block.records for block in blocks] == [len(records) for records in expected]


def test_f08_record_larger_than_a_block_gets_its_own() -> None:
    """A record of 1,000 bytes among small ones, at 100 bytes a block, stands alone; 0-byte values stay."""
    blocks = _cut([_chunk([b"a", b"", b"x" * 1000, b"", b"b"])], 100)
    assert [block.records for block in blocks] == [2, 1, 2]
    assert len(Block(blocks[1].raw)) == 1


def _with_giant() -> Chunk:
    """Return rows of 1, 2**31 and 1 bytes; the middle one is address space that is never written to."""
    sizes = [1, 2**31, 1]
    return Chunk(
        {"blob": Column(np.zeros(sum(sizes), np.uint8), np.cumsum([0, *sizes], dtype=np.int64))},
        len(sizes),
        lambda i: f"big.parquet:{i}",
    )


def test_f08_record_past_the_limit_names_row_and_limit() -> None:
    """A record of 2 GiB is refused with its file, its row and the limit."""
    with pytest.raises(RecordTooLarge, match=r"big\.parquet:1: .*the limit is 2\*\*31 - 1 bytes"):
        _cut([_with_giant()], 100)


def test_f08_record_past_the_limit_is_passed_over_when_asked() -> None:
    """With bad items passed over, the records around it are kept; as any that does not fit, it ended the block."""
    bad: list[BadItem] = []
    features = list(SCHEMA)
    blocks = list(cut_blocks(Encoder(features), features, [_with_giant()], 100, bad.append))
    assert [block.records for block in blocks] == [1, 1]
    assert [item.where for item in bad] == ["big.parquet:1"]


def test_wrong_column_names_its_row() -> None:
    """A chunk whose column does not fit the schema is an error that says where it came from."""
    chunk = Chunk({"blob": Column(np.zeros(2, np.int64))}, 2, lambda i: f"a.csv:{i}")
    with pytest.raises((SchemaError, ValueError)):
        _cut([chunk], 100)
