"""Turn NumPy arrays into columns, whole chunks at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

import numpy as np
import numpy.typing as npt

from datafeed.columns import Array, Column, Mask, Offsets, offsets_of, take_rows
from datafeed.converters.source import Chunk, OnBad
from datafeed.errors import BadItem
from datafeed.schema import Feature

Lengths = npt.NDArray[np.int64]
Faults = Mapping[int, str]
"""Rows that cannot become samples, with the reason."""

_NONE: Faults = {}


def column_of(feature: Feature, array: Array) -> tuple[Column, Faults]:
    """Turn the values of some rows into a column.

    Args:
        feature: What `array_fields.feature_of` made of their leaf.
        array: (n, *shape) The values, in any byte order and layout.

    Returns:
        The column, which shares the array's memory where that has its form already; and the rows that do not fit.
    """
    if array.dtype.kind == "S":
        return _bytes(feature, array), _NONE
    if array.dtype.kind == "U":
        return _texts(feature, array)
    if array.dtype.kind in "Mm":
        return _times(feature, array)
    values = np.ascontiguousarray(array, feature.numpy_dtype)
    if feature.dtype == "bool":
        raw = values.view(np.uint8)
        values = raw != 0 if raw.max(initial=0) > 1 else values
    return Column(values), _NONE


def _cells(array: Array, unit: str) -> tuple[npt.NDArray[np.unsignedinteger], Lengths]:
    """Return strings as (n, width) code units, and the length of each without the NULs behind it."""
    flat = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
    return flat.view(unit).reshape(len(flat), -1), np.strings.str_len(cast("npt.NDArray[np.bytes_]", flat))


def text_column(feature: Feature, rows: int, values: Array, offsets: Offsets) -> Column:
    """Return the column of bytes that stand end to end.

    Args:
        feature: A feature of bytes or text, of shape () or (k,).
        rows: How many rows they make.
        values: The bytes.
        offsets: Where each value begins, then where the last one ends.
    """
    if not feature.shape:
        return Column(values, offsets)
    return Column(values, np.arange(rows + 1) * feature.row_items, offsets)


def _bytes(feature: Feature, array: Array) -> Column:
    cells, lengths = _cells(array, "u1")
    kept = np.arange(cells.shape[1]) < lengths[:, None]
    return text_column(feature, len(array), cells[kept], offsets_of(lengths))


def _texts(feature: Feature, array: Array) -> tuple[Column, Faults]:
    cells, lengths = _cells(array, "<u4")
    kept = np.arange(cells.shape[1]) < lengths[:, None]
    odd = kept & ((cells > 0x10FFFF) | (cells >> 11 == 0x1B))
    faults = _faults(feature, len(array), odd, "is no text: it holds a number that is no Unicode character")
    codes = np.where(odd, 0, cells)[kept] if faults else cells[kept]
    text = codes.tobytes().decode("utf-32-le").encode()
    sizes = 1 + (codes >= 0x80) + (codes >= 0x800).astype(np.int64) + (codes >= 0x10000)
    ends = offsets_of(sizes)[offsets_of(lengths)]
    return text_column(feature, len(array), np.frombuffer(text, np.uint8), ends), faults


def _times(feature: Feature, array: Array) -> tuple[Column, Faults]:
    unit = feature.media.partition("[")[2].removesuffix("]")
    whole = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    times = whole.astype(f"<{array.dtype.kind}8[{unit}]", copy=False)
    values = times.view("<i8")
    if times is whole:
        return Column(values), _NONE
    wrapped = times.astype(whole.dtype).view("<i8") != whole.view("<i8")
    return Column(values), _faults(feature, len(array), wrapped, f"is a time past what int64 holds in {unit}")


def _faults(feature: Feature, rows: int, odd: Mask, why: str) -> Faults:
    if not odd.any():
        return _NONE
    found = np.flatnonzero(odd.reshape(rows, -1).any(axis=1))
    return dict.fromkeys(found.tolist(), f"{feature.name!r} {why}")


def chunk_of(
    columns: Mapping[str, tuple[Column, Faults]], rows: int, where: Callable[[int], str], on_bad: OnBad
) -> Iterator[Chunk]:
    """Make a chunk of columns; rows with a fault go to `on_bad` and are left out.

    Args:
        columns: The columns by the names of their features, each with its faults.
        rows: How many rows they have.
        where: Where row i came from.
        on_bad: What to do with a row that has a fault.

    Yields:
        The chunk; none where no row is left.
    """
    faults: dict[int, str] = {}
    for _, found in columns.values():
        faults = {**found, **faults}
    good = {name: column for name, (column, _) in columns.items()}
    if not faults:
        yield Chunk(good, rows, where)
        return
    for row in sorted(faults):
        on_bad(BadItem(where(row), faults[row]))
    kept = np.delete(np.arange(rows), list(faults))
    if len(kept):
        taken = {name: take_rows(column, kept) for name, column in good.items()}
        yield Chunk(taken, len(kept), lambda row: where(int(kept[row])))
