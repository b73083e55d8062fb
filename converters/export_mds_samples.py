"""Encode samples as MDS shards hold them, a run of records at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from datafeed.columns import Column, Offsets, offsets_of
from datafeed.schema import Feature

Bytes = npt.NDArray[np.uint8]

_SMALL_NBYTES = 16  # up to which a table of places costs less than a slice of Python's a value


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Hold samples end to end.

    Args:
        data: Their bytes.
        sizes: (n) The size of each.
    """

    data: Bytes
    sizes: Offsets

    def between(self, start: int, end: int) -> Samples:
        """Return some of them."""
        before = int(self.sizes[:start].sum())
        sizes = self.sizes[start:end]
        return Samples(self.data[before : before + int(sizes.sum())], sizes)


def fixed_nbytes(feature: Feature) -> int | None:
    """Return the size of a feature's values; None where they differ."""
    if not feature.numeric or feature.ragged:
        return None
    return feature.row_items * feature.numpy_dtype.itemsize


def encoded(features: Sequence[Feature], columns: Sequence[Column], rows: int) -> Samples:
    """Encode rows: the sizes of the values that differ in size (u32 each), then all values.

    Args:
        features: The features.
        columns: Their columns.
        rows: How many rows they have; one at least.
    """
    values = [list(_parts(feature, column, rows)) for feature, column in zip(features, columns, strict=True)]
    told = [
        sum(part.sizes for part in parts)
        for feature, parts in zip(features, values, strict=True)
        if fixed_nbytes(feature) is None
    ]
    sizes = np.array(told, "<u4").reshape(len(told), rows).T
    head = Samples(_flat(sizes), np.full(rows, 4 * len(told)))
    return _side_by_side([head, *chain.from_iterable(values)], rows)


def _parts(feature: Feature, column: Column, rows: int) -> Iterator[Samples]:
    """Yield what stands one behind the other in each value of a feature."""
    data = _flat(column.values)
    nbytes = fixed_nbytes(feature)
    if nbytes is not None:
        yield Samples(data, np.full(rows, nbytes))
        return
    assert column.offsets is not None
    counts = np.diff(column.offsets)
    if feature.ragged:
        yield _shapes(feature, counts)
    yield Samples(data, counts * (feature.row_items * feature.numpy_dtype.itemsize))


def _shapes(feature: Feature, counts: Offsets) -> Samples:
    """Return what stands before arrays: 4 times the rank plus log2 of the bytes of a dimension, then the dimensions."""
    rank = len(feature.shape)
    dims = np.empty((len(counts), rank), np.int64)
    dims[:, 0], dims[:, 1:] = counts, feature.row_shape
    codes = np.searchsorted([2**8, 2**16, 2**32], dims.max(axis=1), "right")
    sizes = 1 + (rank << codes)
    starts = offsets_of(sizes)
    data = np.empty(starts[-1], np.uint8)
    data[starts[:-1]] = rank << 2 | codes
    for code in np.unique(codes).tolist():
        rows = np.flatnonzero(codes == code)
        found = _flat(dims[rows].astype(f"<u{1 << code}")).reshape(len(rows), rank << code)
        data[starts[rows, None] + 1 + np.arange(rank << code)] = found
    return Samples(data, sizes)


def _side_by_side(parts: Sequence[Samples], rows: int) -> Samples:
    """Return the rows of all parts, each row's one behind the other."""
    sizes: Offsets = np.sum([part.sizes for part in parts], axis=0)
    if all((part.sizes == part.sizes[0]).all() for part in parts):
        return Samples(np.concatenate([p.data.reshape(rows, p.sizes[0]) for p in parts], axis=1).reshape(-1), sizes)
    offsets = offsets_of(sizes)
    out = np.empty(offsets[-1], np.uint8)
    at = offsets[:-1]
    for part in parts:
        _place(out, at, part)
        at = at + part.sizes
    return Samples(out, sizes)


def _place(out: Bytes, at: Offsets, part: Samples) -> None:
    starts = offsets_of(part.sizes)
    if len(part.data) <= _SMALL_NBYTES * len(at):
        out[np.repeat(at - starts[:-1], part.sizes) + np.arange(len(part.data))] = part.data
        return
    into, data = out.data, part.data.data
    for place, start, nbytes in zip(at.tolist(), starts.tolist(), part.sizes.tolist(), strict=False):
        into[place : place + nbytes] = data[start : start + nbytes]


def _flat(values: npt.NDArray[np.generic]) -> Bytes:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
