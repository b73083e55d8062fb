"""Test how values become the arrays of a column."""

from __future__ import annotations

import numpy as np

from datafeed.columns import end_to_end, offsets_of


def test_offsets_begin_at_zero_and_end_at_the_sum() -> None:
    """int64 whatever the lengths are, and of no length too."""
    for lengths, expected in (([], [0]), ([2, 0, 3], [0, 2, 2, 5]), (np.array([1, 2], np.int32), [0, 1, 3])):
        found = offsets_of(lengths)
        assert found.dtype == np.int64
        assert found.tolist() == expected


def test_values_stand_end_to_end() -> None:
    """Empty ones take no room; none at all make empty bytes."""
    joined, offsets = end_to_end([b"ab", b"", b"c"])
    assert (joined.tobytes(), offsets.tolist()) == (b"abc", [0, 2, 2, 3])
    joined, offsets = end_to_end([])
    assert (joined.dtype, len(joined), offsets.tolist()) == (np.uint8, 0, [0])
