"""Test turning Python samples into columns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from source_contract import check_form, rows_of

from datafeed.converters.rows import chunk_of
from datafeed.errors import BadItem
from datafeed.schema import NUMERIC, Feature, Schema, stored


def back(feature: Feature, *values: object) -> tuple[list[object], list[BadItem]]:
    """Turn values into a column and back, with those that were refused."""
    bad: list[BadItem] = []
    samples = [{feature.name: value} for value in values]
    chunk = chunk_of(Schema([feature]), samples, "row {}".format, bad.append)
    check_form(feature, chunk.columns[feature.name], chunk.rows)
    return [row[feature.name] for row in rows_of([feature], chunk)], bad


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("bool", True),
        ("bool", np.bool_(0)),
        ("int64", 1),
        ("int64", 2**40),
        ("int64", np.array(7)),
        ("uint64", 2**64 - 1),
        ("float64", 1.5),
        ("float64", float("-inf")),
        ("float32", np.float32(1)),
        ("float16", np.array(0.5)),
        ("utf8", ""),
        ("utf8", "🦙"),
        ("bytes", b""),
        ("bytes", b"\xff\0"),
    ],
)
def test_f97_values_come_back_the_same(dtype: str, value: object) -> None:
    """With a missing one beside each, and of the type that the schema says."""
    found, bad = back(stored("x", dtype, optional=True), value, None)
    assert not bad
    assert found == [value, None]
    kinds = {"utf8": str, "bytes": bytes, "bool": bool}
    assert type(found[0]) is kinds.get(dtype, float if dtype.startswith("float") else int)


@pytest.mark.parametrize("dtype", ["utf8", "bytes"])
def test_arrays_of_text_come_back_as_lists(dtype: str) -> None:
    """Those without an axis as one text."""
    texts = np.array(["a", "bcd"]).astype("U3" if dtype == "utf8" else "S3")
    assert back(stored("x", dtype, (None,)), texts) == ([texts.tolist()], [])
    assert back(stored("x", dtype), texts[0].reshape(())) == ([texts[0].item()], [])


def test_f97_nan_comes_back_as_nan() -> None:
    """It is a value, not a missing one."""
    (found,), bad = back(stored("x", "float64", optional=True), float("nan"))
    assert found != found  # noqa: PLR0124  (so NaN is)
    assert not bad


@pytest.mark.parametrize("dtype", [dtype for dtype in NUMERIC if "int" in dtype])
def test_f98_integers_outside_the_dtype_are_refused(dtype: str) -> None:
    """The bounds themselves are exact; one past them names value, feature and row, alone and in a list."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    found, bad = back(stored("ids", dtype), low, high, high + 1, low - 1)
    assert found == [low, high]
    assert [(item.where, str(value) in item.reason) for item, value in zip(bad, (high + 1, low - 1), strict=True)] == [
        ("row 2", True),
        ("row 3", True),
    ]
    assert all("'ids'" in item.reason for item in bad)
    found, bad = back(stored("ids", dtype, (None,)), [low, high], [], [1, high + 1])
    assert found == [[low, high], []]
    assert [item.where for item in bad] == ["row 2"]


def test_f98_token_ids_are_exact_or_refused() -> None:
    """0, 65535, 65536 and 150000, as uint16 and as uint32; NumPy's own arrays do not wrap either."""
    ids = [0, 65535, 65536, 150000]
    assert back(stored("x", "uint32", (None,)), ids) == ([ids], [])
    for value in (ids, np.array(ids), np.array(ids, np.int32)):
        found, bad = back(stored("x", "uint16", (None,)), value)
        assert not found
        assert "uint16" in bad[0].reason


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        (stored("x", "int64"), 1.5),
        (stored("x", "int64"), "1"),
        (stored("x", "int64"), [1]),
        (stored("x", "int64"), None),
        (stored("x", "bool"), 1),
        (stored("x", "float32"), 1e39),
        (stored("x", "float64"), 2**53 + 1),
        (stored("x", "float32", (3,)), [1.0, 2.0]),
        (stored("x", "float32", (None, 2)), [[1.0, 2.0, 3.0]]),
        (stored("x", "int32", (None,)), [1, None]),
        (stored("x", "int32", (None,)), [[1], [2, 3]]),
        (stored("x", "utf8"), b"bytes"),
        (stored("x", "utf8"), "\ud800"),
        (stored("x", "bytes"), "text"),
        (stored("x", "utf8", (None,)), "no list"),
        (stored("x", "utf8", (2,)), ["one"]),
        (stored("x", "utf8", (None,)), np.array([["a"], ["b"]])),
        (stored("x", "float32", (2,)), torch.zeros(2, dtype=torch.bfloat16)),
        (stored("x", "float32", (None,)), torch.zeros(2, requires_grad=True)),
    ],
)
def test_values_that_do_not_fit_are_refused(feature: Feature, value: object) -> None:
    """Never rounded, wrapped, parsed or padded; the item names the feature and its row."""
    found, bad = back(feature, value)
    assert not found
    assert [item.where for item in bad] == ["row 0"]
    assert "'x'" in bad[0].reason


def test_the_others_keep_their_places() -> None:
    """`where` speaks of the samples as they came."""
    bad: list[BadItem] = []
    samples = [{"x": 0}, {"x": "no"}, {}, {"x": 3}]
    chunk = chunk_of(Schema([stored("x", "int64")]), samples, "row {}".format, bad.append)
    assert chunk.columns["x"].values.tolist() == [0, 3]
    assert [chunk.where(row) for row in range(chunk.rows)] == ["row 0", "row 3"]
    assert [item.where for item in bad] == ["row 1", "row 2"]
