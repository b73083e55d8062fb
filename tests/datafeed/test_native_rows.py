"""Check which rows of which blocks the parser takes."""

from __future__ import annotations

import native_cases as cases
import numpy as np
import oracle
import pytest

from datafeed._native import Block, Encoder, Parser
from datafeed.schema import Feature

INT = Feature("a", "int64", "int64")
ONE = oracle.field(1, oracle.entry_message("a", oracle.feature_message("int64", [1])))


def test_parse_when_rows_are_scattered_over_blocks() -> None:
    """Rows come in the order asked, repeats too, from bytearray and memoryview blocks, with unused places None."""
    features, columns = cases.all_forms()
    raws = [Encoder(features).encode(columns, start, start + 2, 2**30)[0] for start in (0, 2)]
    blocks = [None, Block(bytearray(raws[0])), None, Block(memoryview(raws[1]), 2)]
    which, rows = np.array([3, 1, 3, 1, 1], np.int32), np.array([1, 0, 0, 1, 0], np.int32)
    order = [3, 0, 2, 1, 0]
    for i, column in enumerate(Parser(features).parse(blocks, which, rows)):
        cells = [oracle.cell_of(features[i], columns[i], row) for row in order]
        cases.assert_same(column, oracle.to_column(features[i], cells))


@pytest.mark.parametrize(("which", "row"), [(-1, 0), (2, 0), (0, 0), (1, 1), (1, -1), (2**31 - 1, 0), (-(2**31), 0)])
def test_parse_when_an_index_is_outside(which: int, row: int) -> None:
    """A block or row outside, or a block that is not there, raises IndexError with the position."""
    blocks = [None, Block(oracle.frame(ONE))]
    with pytest.raises(IndexError, match="position 1: no record"):
        Parser([INT]).parse(blocks, np.array([1, which], np.int32), np.array([0, row], np.int32))


def test_parse_when_arguments_have_other_types() -> None:
    """Indices of another dtype, unequal lengths and things that are no Block are refused."""
    zeros = np.zeros(1, np.int32)
    block = Block(oracle.frame(ONE))
    with pytest.raises(TypeError, match="int32"):
        Parser([INT]).parse([block], zeros.astype(np.int64), zeros)
    with pytest.raises(ValueError, match="as many block numbers"):
        Parser([INT]).parse([block], zeros, np.zeros(2, np.int32))
    with pytest.raises(TypeError, match="Block or None"):
        Parser([INT]).parse([b"raw"], zeros, zeros)  # type: ignore[list-item]  # what is tried here
