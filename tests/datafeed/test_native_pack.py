"""Check that packed blocks give what the blocks that they were made of give."""

from __future__ import annotations

import native_cases as cases
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datafeed._native import Block, Parser
from datafeed.columns import Column
from datafeed.errors import SchemaError
from datafeed.schema import Feature

INT = Feature("a", "int64", "int64")
LONG = Feature("long", "bytes", "uint8", (5000,))


def take(nbytes: int) -> memoryview:
    """Give memory whose content is nothing to build on."""
    return np.full(nbytes, 0xA5, np.uint8).data


def block_of(features: list[Feature], columns: list[Column], rows: range) -> Block:
    """Frame some rows."""
    return Block(b"".join(oracle.frame(oracle.write_record(features, columns, row)) for row in rows))


def integers(numbers: list[int]) -> Block:
    """Frame records of `a`."""
    return Block(
        b"".join(oracle.frame(oracle.write_record([INT], [Column(np.array(numbers))], i)) for i in range(len(numbers)))
    )


@given(cases.tables(), st.data())
def test_packed_rows_are_as_parsed_ones(table: cases.Table, data: st.DataObject) -> None:
    """Any features, and any of them chosen, in any order of rows, from packed blocks and plain ones at once."""
    features, columns, rows = table
    halves = [block_of(features, columns, part) for part in (range(rows // 2), range(rows // 2, rows))]
    packer = Parser(features)
    mixed = [packer.pack(half, take) if data.draw(st.booleans()) else half for half in halves]
    order = np.array(data.draw(st.lists(st.integers(0, rows - 1), max_size=70)) if rows else [], np.int32)
    which = (order >= rows // 2).astype(np.int32)
    at = order - which * (rows // 2)
    chosen = data.draw(st.permutations(features))[: data.draw(st.integers(0, len(features)))]
    parser = Parser(chosen)
    for found, expected in zip(parser.parse(mixed, which, at), parser.parse(halves, which, at), strict=True):
        cases.assert_same(found, expected)


def test_every_form_is_packed() -> None:
    """Each kind, dtype and shape that a schema accepts comes back; texts and views do, too."""
    features, columns = cases.all_forms()
    block = block_of(features, columns, range(4))
    parser = Parser(features)
    packed = parser.pack(block, take)
    assert packed is not block
    assert len(packed) == 4
    which, rows = np.zeros(100, np.int32), (np.arange(100) * 3 % 4).astype(np.int32)
    for found, expected in zip(parser.parse([packed], which, rows), parser.parse([block], which, rows), strict=True):
        cases.assert_same(found, expected)
    single = frozenset(i for i, feature in enumerate(features) if not feature.numeric and not feature.shape)
    for listed, viewed in ((single, frozenset()), (frozenset(), single)):
        found, expected = (parser.parse_batch([one], which, rows, listed, viewed) for one in (packed, block))
        assert found.texts == expected.texts
        assert found.views == expected.views
        assert len(found.texts) + len(found.views) == len(single)


def test_long_rows_are_gathered_from_many_blocks() -> None:
    """Rows longer than what is fetched ahead, more of them than are gathered at a time."""
    values = np.random.default_rng(0).integers(0, 256, (90, 5000), np.uint8)
    blocks = [block_of([LONG], [Column(values)], range(low, low + 30)) for low in (0, 30, 60)]
    parser = Parser([LONG])
    packed = [parser.pack(block, take) for block in blocks]
    order = np.random.default_rng(1).permutation(90).astype(np.int32)
    (column,) = parser.parse(packed, order // 30, order % 30)
    np.testing.assert_array_equal(column.values, values[order])


def test_views_keep_a_packed_block_alive() -> None:
    """The memory that was taken lives as long as what is seen of it."""
    feature = Feature("a", "bytes", "bytes")
    block = Block(
        oracle.frame(oracle.write_record([feature], [Column(np.frombuffer(b"kept", np.uint8), np.array([0, 4]))], 0))
    )
    zeros = np.zeros(1, np.int32)
    parser = Parser([feature])
    (view,) = parser.parse_batch([parser.pack(block, take)], zeros, zeros, frozenset(), frozenset([0])).views[0]
    assert view.readonly
    assert bytes(view) == b"kept"


def test_what_does_not_fit_is_not_packed() -> None:
    """A record without its feature raises, as it does when it is parsed; records without bytes stay as they are."""
    block = integers([1, 2])
    with pytest.raises(SchemaError) as caught:
        Parser([Feature("b", "int64", "int64")]).pack(block, take)
    assert (caught.value.row, caught.value.feature) == (0, "b")
    assert Parser([]).pack(block, take) is block


def test_a_packed_block_is_refused_where_it_does_not_serve() -> None:
    """Two parsers' blocks in one call, features that were not packed, the encoding, rows outside, bad memory."""
    zeros = np.zeros(1, np.int32)
    first, second = Parser([INT]), Parser([INT])
    packed = first.pack(integers([7]), take)
    with pytest.raises(TypeError, match="one parser"):
        first.parse([packed, second.pack(integers([8]), take)], np.array([0, 1], np.int32), np.zeros(2, np.int32))
    with pytest.raises(TypeError, match="'b' is not among those that were packed"):
        Parser([Feature("b", "int64", "int64")]).parse([packed], zeros, zeros)
    with pytest.raises(TypeError, match="encoding"):
        packed.record(0)
    with pytest.raises(TypeError, match="encoding"):
        _ = packed.raw
    with pytest.raises(IndexError, match="no record 1"):
        first.parse([packed], zeros, zeros + 1)
    with pytest.raises(ValueError, match="writable buffer of 8 bytes"):
        first.pack(integers([7]), bytes)
    with pytest.raises(TypeError, match=r"Parser\.pack makes"):
        type(packed)(b"")
