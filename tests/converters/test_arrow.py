"""Test turning Arrow arrays into columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_contract import check_form, rows_of

from datafeed.converters.arrow import column_of, feature_of, reshaped, unfit_rows
from datafeed.converters.source import Chunk
from datafeed.errors import SchemaError

_INT16 = st.integers(-(2**15), 2**15 - 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=14)
_FORMS: list[tuple[pa.DataType, st.SearchStrategy[object]]] = [
    (pa.int16(), _INT16),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), _TEXT),
    (pa.large_string(), _TEXT),
    (pa.string_view(), _TEXT),
    (pa.binary(), st.binary(max_size=14)),
    (pa.large_binary(), st.binary(max_size=14)),
    (pa.binary_view(), st.binary(max_size=14)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.dictionary(pa.int8(), pa.string()), _TEXT),
    (pa.dictionary(pa.int32(), pa.int16()), _INT16),
    (pa.list_(pa.int16()), st.lists(_INT16, max_size=4)),
    (pa.list_(pa.bool_()), st.lists(st.booleans(), max_size=9)),
    (pa.large_list(pa.string()), st.lists(_TEXT, max_size=3)),
    (pa.list_(pa.binary()), st.lists(st.binary(max_size=5), max_size=3)),
    (pa.list_(pa.int16(), 3), st.lists(_INT16, min_size=3, max_size=3)),
    (pa.list_(pa.bool_(), 3), st.lists(st.booleans(), min_size=3, max_size=3)),
    (pa.list_(pa.string(), 2), st.lists(_TEXT, min_size=2, max_size=2)),
    (pa.list_(pa.list_(pa.int16(), 2), 2), st.lists(st.lists(_INT16, min_size=2, max_size=2), min_size=2, max_size=2)),
    (pa.list_(pa.list_(pa.int16(), 2)), st.lists(st.lists(_INT16, min_size=2, max_size=2), max_size=3)),
]


def back(array: pa.Array, *, optional: bool = True) -> list[object]:
    """Turn an array into a column of the right form, and the column into Python values."""
    feature = feature_of("x", array.type, optional=optional, int64_lists=False)
    assert not unfit_rows(feature, array)
    column = column_of(feature, array)
    check_form(feature, column, len(array))
    return [row["x"] for row in rows_of([feature], Chunk({"x": column}, len(array)))]


def unfit(array: pa.Array, *, optional: bool = True) -> dict[int, str]:
    """Return the rows that cannot be held, with the reason."""
    return unfit_rows(feature_of("x", array.type, optional=optional, int64_lists=False), array)


@pytest.mark.parametrize(("kind", "values"), _FORMS, ids=[str(kind) for kind, _ in _FORMS])
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_any_part_of_an_array_holds_what_arrow_says(
    kind: pa.DataType, values: st.SearchStrategy[object], data: st.DataObject
) -> None:
    """Arrow itself is the oracle: a slice begins anywhere in its buffers, and what is null takes part in them."""
    array = pa.array(data.draw(st.lists(st.none() | values, max_size=8)), kind)
    for start in range(len(array) + 1):
        for part in (array[start:], array[start : start + 2], array[start:start]):
            assert repr(back(part)) == repr(part.to_pylist())


def test_texts_begin_at_0_where_all_lists_of_a_slice_are_empty() -> None:
    """A slice behind others has offsets past 0 where it holds no text."""
    array = pa.array([["ab", "c"], [], None], pa.list_(pa.string()))[1:]
    column = column_of(feature_of("x", array.type, optional=True, int64_lists=False), array)
    assert column.inner is not None
    assert column.inner.tolist() == [0]


@pytest.mark.parametrize("kind", [pa.int16(), pa.list_(pa.int16()), pa.list_(pa.int16(), 2)], ids=str)
def test_values_behind_a_null_are_not_seen(kind: pa.DataType) -> None:
    """A missing row may have numbers in the buffers; zeros or nothing stand in its place."""
    mask = pa.array([False, True, False])
    if kind == pa.int16():
        array = pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x05"), pa.array([1, 2, 3], kind).buffers()[1]])
    elif kind == pa.list_(pa.int16()):
        array = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4], "int32"), pa.array([1, 2, 3, 4], "int16"), mask=mask)
    else:
        array = pa.FixedSizeListArray.from_arrays(pa.array(range(6), "int16"), 2, mask=mask)
    feature = feature_of("x", kind, optional=True, int64_lists=False)
    for part in (array, array[1:]):
        column = column_of(feature, part)
        hole = len(part) - 2
        held = column.values[hole] if column.offsets is None else np.diff(column.offsets)[hole]
        assert not np.any(held)
        assert back(part) == part.to_pylist()


def test_missing_floats_are_nan() -> None:
    """In scalars and in lists of fixed size alike."""
    for kind, values in ((pa.float16(), [None, 1.5]), (pa.list_(pa.float32(), 2), [None, [1.0, 2.0]])):
        column = column_of(feature_of("x", kind, optional=True, int64_lists=False), pa.array(values, kind))
        assert np.isnan(column.values[0]).all()
        assert not np.isnan(column.values[1]).any()


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.list_(pa.bool_()), pa.list_(pa.float64(), 3)], ids=str)
def test_an_array_of_the_null_type_fills_any_optional_feature(kind: pa.DataType) -> None:
    """As where a file of several holds nothing but nulls in a column."""
    feature = feature_of("x", kind, optional=True, int64_lists=False)
    column = column_of(feature, pa.nulls(3))
    check_form(feature, column, 3)
    assert column.present is not None
    assert not column.present.any()


def test_numbers_are_not_copied() -> None:
    """The column lies in Arrow's memory and keeps it alive."""
    for array in (pa.array(range(8), "int32")[2:], pa.array([[1, 2], [3, 4]], pa.list_(pa.uint16(), 2))):
        feature = feature_of("x", array.type, optional=False, int64_lists=False)
        inner = array.flatten() if feature.shape else array
        buffer = inner.buffers()[1]
        address = column_of(feature, array).values.__array_interface__["data"][0]
        assert buffer.address <= address < buffer.address + buffer.size


@pytest.mark.parametrize(
    ("kind", "values", "rows"),
    [
        (pa.list_(pa.int8()), [[1], [None], None, [2, None]], [1, 3]),
        (pa.list_(pa.string()), [["a"], None, ["b", None]], [2]),
        (pa.list_(pa.list_(pa.int8(), 2), 2), [[[1, 2], [3, 4]], [[1, 2], None], [[1, None], [3, 4]]], [1, 2]),
        (pa.list_(pa.list_(pa.int8(), 2)), [[], [[1, 2]], [None], [[None, 1]]], [2, 3]),
    ],
    ids=str,
)
def test_nulls_within_lists_are_named_by_row(kind: pa.DataType, values: Sequence[object], rows: list[int]) -> None:
    """At any depth, and where the array is cut; a list that is missing whole is none of them."""
    array = pa.array(values, kind)
    assert list(unfit(array)) == rows
    assert list(unfit(array[1:])) == [row - 1 for row in rows]


def test_a_null_in_a_feature_that_is_not_optional_is_named() -> None:
    """A dictionary may hide it among its words."""
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    assert list(unfit(words, optional=False)) == [1]
    assert not unfit(words)
    assert back(words) == ["a", None, "a"]


def test_text_that_is_no_utf8_is_named_where_it_is_used() -> None:
    """A bad word of a dictionary, or one outside the slice, condemns no other row."""
    text = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    assert list(unfit(text)) == [1]
    assert not unfit(text[2:])
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), text[:2])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], "int32"), words)
    for array in (words, lists):
        assert list(unfit(array)) == [1]
        assert not unfit(array[2:])


def test_tensors_of_fixed_shape_keep_it() -> None:
    """Ray and others write them as an extension over flat lists."""
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int8(), (2, 2)), pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.list_(pa.int8(), 4))
    )
    assert back(tensors) == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_lists_get_the_sizes_that_metadata_say(start: int) -> None:
    """Of a part of an array too; missing ones stay so, others of another shape are named, at any depth."""
    values = [[[1, 2], [3, 4]], None, [[5, 6], [7, 8]], [[9, 9]], [[1, 2], [3]], [[1, 2], None], [[0, 1], [2, 3]]]
    whole = pa.array(values, pa.list_(pa.list_(pa.int8())))
    kind = pa.list_(pa.list_(pa.int8(), 2), 2)
    feature = feature_of("x", kind, optional=True, int64_lists=False)
    for end in (3, 7):
        array, odd = reshaped(feature, whole.slice(start, end - start), kind)
        assert odd == {row - start: "'x' has not the shape (2, 2)" for row in (3, 4, 5) if row < end}
        kept = [None if row in (3, 4, 5) else values[row] for row in range(start, end)]
        chunk = Chunk({"x": column_of(feature, array)}, end - start)
        assert [row["x"] for row in rows_of([feature], chunk)] == kept


def test_lists_of_any_length_get_items_of_a_size() -> None:
    """Only what is within the first dimension is fixed."""
    array = pa.array([[[1, 2]], [], None, [[3, 4], [5, 6]], [[7]]], pa.large_list(pa.list_(pa.int16())))
    kind = pa.list_(pa.list_(pa.int16(), 2))
    feature = feature_of("x", kind, optional=True, int64_lists=False)
    found, odd = reshaped(feature, array, kind)
    assert list(odd) == [4]
    chunk = Chunk({"x": column_of(feature, found)}, 5)
    assert [row["x"] for row in rows_of([feature], chunk)] == [[[1, 2]], [], None, [[3, 4], [5, 6]], None]


def test_an_extension_is_read_as_what_it_is_stored_as() -> None:
    """JSON is text, and its media says so."""
    kind = pa.json_()
    assert back(pa.ExtensionArray.from_storage(kind, pa.array(['{"a":1}', "2"]))) == ['{"a":1}', "2"]
    assert feature_of("x", kind, optional=False, int64_lists=False).media == "json"


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (pa.decimal256(50, 2), "cast it to float64 or string"),
        (pa.month_day_nano_interval(), "write it as text, or leave it out"),
        (pa.map_(pa.string(), pa.int8()), "leave it out"),
        (pa.sparse_union([pa.field("a", pa.int8())]), "leave it out"),
        (pa.list_view(pa.int8()), "leave it out"),
        (pa.list_(pa.list_(pa.int8())), "leave it out"),
        (pa.list_(pa.list_(pa.string(), 2)), "lists of lists of text"),
        (pa.list_(pa.int8(), 0), "lists of size 0 hold nothing"),
    ],
    ids=str,
)
def test_types_that_no_feature_holds_are_refused(kind: pa.DataType, advice: str) -> None:
    """The message names the feature and the type."""
    with pytest.raises(SchemaError, match=rf"'x'.*{advice}") as caught:
        feature_of("x", kind, optional=True, int64_lists=False)
    assert str(kind) in str(caught.value)


def test_integer_arrays_are_stored_as_asked() -> None:
    """As raw bytes, or in the plain TensorFlow form; the column is the same."""
    array = pa.array([[1, 2], [3, 4]], pa.list_(pa.uint16(), 2))
    raw, lists = (feature_of("x", array.type, optional=False, int64_lists=asked) for asked in (False, True))
    assert (raw.kind, lists.kind) == ("bytes", "int64")
    assert np.array_equal(column_of(raw, array).values, column_of(lists, array).values)
