"""Test how values become the arrays of a column."""

from __future__ import annotations

import numpy as np
import pytest

from datafeed import columns
from datafeed.columns import Column, end_to_end, join_columns, offsets_of, take_rows
from datafeed.converters.rows import column_of
from datafeed.schema import Feature, stored


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


FORMS = [
    (stored("n", "int32"), [1, 2, 3, 4]),
    (stored("f", "float32", (2,)), [[1, 2], [3, 4], [5, 6], [7, 8]]),
    (stored("r", "int16", (None, 2)), [[[1, 2]], [], [[3, 4], [5, 6]], [[7, 8]]]),
    (stored("b", "bytes"), [b"a", b"", b"ccc", b"dd"]),
    (stored("t", "utf8", (None,)), [["x"], [], ["yy", ""], ["z", "z"]]),
    (stored("o", "float64", optional=True), [1.5, None, 2.5, None]),
    (stored("p", "utf8", optional=True), [None, "a", None, "bb"]),
]


@pytest.mark.parametrize("long_run", [0, 64])
@pytest.mark.parametrize(("feature", "values"), FORMS, ids=[feature.name for feature, _ in FORMS])
def test_rows_are_taken_and_columns_joined_in_every_form(
    monkeypatch: pytest.MonkeyPatch, feature: Feature, values: list[object], long_run: int
) -> None:
    """As if the column had been made of those values, whether runs of them are copied or each is."""
    monkeypatch.setattr(columns, "_LONG_RUN", long_run)
    rows = [3, 0, 0, 2]
    same(take_rows(column_of(feature, values), np.array(rows)), column_of(feature, [values[row] for row in rows]))
    same(take_rows(column_of(feature, values), np.array([], np.int64)), column_of(feature, []))
    parts = [column_of(feature, part) for part in (values[:1], [], values[1:])]
    same(join_columns(parts), column_of(feature, values))


def same(found: Column, expected: Column) -> None:
    """Assert that two columns hold the same."""
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            assert one.tolist() == other.tolist() or repr(one.tolist()) == repr(other.tolist())


def test_a_column_without_a_mask_joins_one_with() -> None:
    """All of its samples are there."""
    column = Column(np.array([1, 2]))
    joined = join_columns([column, Column(np.array([3]), present=np.array([False]))])
    assert joined.present is not None
    assert joined.present.tolist() == [True, True, False]
