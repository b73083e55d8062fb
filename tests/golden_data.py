"""Hold the golden datasets' schema and values, as literals, with the way from rows to columns and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from datafeed.columns import Column
from datafeed.schema import Feature, Schema, stored

Row = Mapping[str, object]

SCHEMA = Schema(
    [
        stored("label", "int64", classes=("cat", "dog")),
        stored("flag", "bool"),
        stored("small", "int8"),
        stored("port", "uint16"),
        stored("huge", "uint64"),
        stored("score", "float32"),
        stored("exact", "float64"),
        stored("half", "float16", (2,)),
        stored("point", "float32", (3,)),
        stored("curve", "float32", (None,)),
        stored("tokens", "uint16", (4,)),
        stored("boxes", "int32", (None, 2)),
        stored("grid", "uint8", (2, 2)),
        stored("counts", "int64", (2,), int64_lists=True),
        stored("path", "int32", (None,), int64_lists=True),
        stored("blob", "bytes"),
        stored("text", "utf8"),
        stored("image", "bytes", media="image/png"),
        stored("meta", "utf8", media="json"),
        stored("pair", "bytes", (2,)),
        stored("words", "utf8", (None,)),
        stored("maybe", "int64", optional=True),
        stored("perhaps", "utf8", optional=True),
        stored("maybe_curve", "float32", (None,), optional=True),
    ]
)

_FULL: Row = {
    "label": 1,
    "flag": True,
    "small": -128,
    "port": 65535,
    "huge": 2**64 - 1,
    "score": -0.5,
    "exact": 0.1,
    "half": [1.5, -2.0],
    "point": [1.0, 2.0, 3.0],
    "curve": [0.25, 0.5],
    "tokens": [0, 1, 40000, 65535],
    "boxes": [[1, -2], [3, 4]],
    "grid": [[0, 255], [7, 8]],
    "counts": [-1, 2**62],
    "path": [5, -6, 7],
    "blob": b"\x00\xff\n",
    "text": "grüße 🦙",
    "image": b"\x89PNG\r\n\x1a\n",
    "meta": '{"a": [1]}',
    "pair": [b"left", b""],
    "words": ["one", "", "drei"],
    "maybe": -(2**63),
    "perhaps": "here",
    "maybe_curve": [9.0],
}
_BARE: Row = {
    **_FULL,
    "label": 0,
    "flag": False,
    "small": 0,
    "curve": [],
    "boxes": [],
    "path": [],
    "blob": b"",
    "text": "",
    "words": [],
    "maybe": None,
    "perhaps": None,
    "maybe_curve": None,
}
ROWS: Sequence[Row] = [
    _FULL,
    _BARE,
    *({**_FULL, "label": number % 2, "text": f"row {number}"} for number in range(2, 40)),
]


def to_column(feature: Feature, values: Sequence[object]) -> Column:
    """Turn one feature's values, None where missing, into a column."""
    present = np.array([value is not None for value in values]) if feature.optional else None
    if not feature.numeric:
        return _bytes_column(feature, values, present)
    dtype, shape = feature.numpy_dtype, feature.row_shape
    if not feature.ragged:
        filled = [np.zeros(shape) if value is None else value for value in values]
        return Column(np.array(filled, dtype).reshape(len(values), *shape), present=present)
    parts = [np.array([] if value is None else value, dtype).reshape(-1, *shape) for value in values]
    return Column(np.concatenate(parts), _offsets([len(part) for part in parts]), present=present)


def from_column(feature: Feature, column: Column, rows: int) -> list[object]:
    """Turn a column into plain values, None where missing."""
    if not feature.numeric:
        found = _texts(feature, column, rows)
    elif column.offsets is None:
        found = [value.tolist() for value in column.values]
    else:
        found = [column.values[start:stop].tolist() for start, stop in pairwise(column.offsets.tolist())]
    present = column.present
    return [None if present is not None and not present[row] else found[row] for row in range(rows)]


def _bytes_column(feature: Feature, values: Sequence[object], present: np.ndarray | None) -> Column:
    lists = [_list(feature, value) for value in values]
    items = [item.encode() if isinstance(item, str) else bytes(item) for part in lists for item in part]
    joined = np.frombuffer(b"".join(items), np.uint8)
    ends = _offsets([len(item) for item in items])
    if not feature.shape:
        return Column(joined, ends, present=present)
    return Column(joined, _offsets([len(part) for part in lists]), ends, present=present)


def _list(feature: Feature, value: object) -> list[str | bytes]:
    if feature.shape:
        return [] if value is None else list(value)  # type: ignore[call-overload]  # a list by the schema
    return [b"" if value is None else value]  # type: ignore[list-item]  # text or bytes by the schema


def _texts(feature: Feature, column: Column, rows: int) -> list[object]:
    ends = column.offsets if column.inner is None else column.inner
    assert ends is not None
    assert column.offsets is not None
    items = [bytes(column.values[start:stop]) for start, stop in pairwise(ends.tolist())]
    texts = [item.decode() if feature.dtype == "utf8" else item for item in items]
    if not feature.shape:
        return texts[:rows]
    return [texts[start:stop] for start, stop in pairwise(column.offsets.tolist())]


def _offsets(counts: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.array(counts, np.int64))]).astype(np.int64)
