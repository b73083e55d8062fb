"""Hold many samples as columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LONG_RUN = 64  # values of a run from which a copy of each is faster than an index of each value, and takes no memory


class Column(NamedTuple):
    r"""Hold one feature of n samples.

    ============================  ==========================  ===================  ===========================
    feature                       values                      offsets              inner
    ============================  ==========================  ===================  ===========================
    numeric, fixed shape          (n, \*shape), its dtype     None                 None
    numeric, ragged               (items, \*row_shape)        (n + 1), in items    None
    bytes or utf8, shape ()       uint8, end to end           (n + 1), in bytes    None
    bytes or utf8, shape (k,)     uint8, end to end           (n + 1), in values   (values + 1), in bytes
    ============================  ==========================  ===================  ===========================

    Offsets start at 0 and never fall. `present` is (n,) bool, None where every sample has the feature. A missing sample
    has zeros (NaN for floats) or an empty run in its place.
    """

    values: Array
    offsets: Offsets | None = None
    inner: Offsets | None = None
    present: Mask | None = None


Columns = Mapping[str, Column]


def offsets_of(lengths: Sequence[int] | npt.NDArray[np.integer]) -> Offsets:
    """Return where runs of these lengths begin when they stand end to end, then where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def end_to_end(values: Sequence[bytes]) -> tuple[Array, Offsets]:
    """Return the bytes of values end to end, and where each begins: what a column of bytes holds."""
    return np.frombuffer(b"".join(values), np.uint8), offsets_of([len(value) for value in values])


class Parsed(NamedTuple):
    """Hold what the parser made of some records, in the form that costs least.

    Attributes:
        wholes: Per group of scalars of one dtype (`Parser.groups`), (features of the group, n).
        columns: Per feature, its column; None for one that stands in another of these.
        texts: By the number of the feature, one bytes object a record.
        views: By the number of the feature, one read-only view of a block's memory a record.
        present: Per feature, (n,) bool; None for one that is not optional.
    """

    wholes: list[Array]
    columns: list[Column | None]
    texts: dict[int, list[bytes]]
    views: dict[int, list[memoryview]]
    present: list[Mask | None]


def take_rows(column: Column, rows: npt.NDArray[np.integer]) -> Column:
    """Return some samples of a column, copied.

    Args:
        column: The column.
        rows: Their numbers, in any order.
    """
    present = None if column.present is None else column.present[rows]
    if column.offsets is None:
        return Column(column.values[rows], present=present)
    if column.inner is None:
        return Column(*_take_runs(column.values, column.offsets, rows), present=present)
    places, offsets = _runs(column.offsets, rows)
    values, inner = _take_runs(column.values, column.inner, places)
    return Column(values, offsets, inner, present)


def _take_runs(values: Array, offsets: Offsets, rows: npt.NDArray[np.integer]) -> tuple[Array, Offsets]:
    """Return some runs of values, copied end to end, and where each begins."""
    starts, ends = offsets[rows], offsets[rows + 1]
    out = offsets_of(ends - starts)
    if out[-1] < _LONG_RUN * len(rows):
        return values[_places(starts, out)], out
    size = values.itemsize * math.prod(values.shape[1:])
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    spans = zip((starts * size).tolist(), (ends * size).tolist(), strict=True)
    taken = bytearray().join([raw[start:end] for start, end in spans])
    return np.frombuffer(taken, values.dtype).reshape(int(out[-1]), *values.shape[1:]), out


def _runs(offsets: Offsets, rows: npt.NDArray[np.integer]) -> tuple[Offsets, Offsets]:
    """Return the place of every item of some runs, one run after the other, and where each run then begins."""
    starts = offsets[rows]
    out = offsets_of(offsets[rows + 1] - starts)
    return _places(starts, out), out


def _places(starts: Offsets, out: Offsets) -> Offsets:
    return np.arange(out[-1]) + np.repeat(starts - out[:-1], np.diff(out))


def join_columns(columns: Sequence[Column]) -> Column:
    """Return the samples of several columns of one feature, one after the other.

    Args:
        columns: One or more.
    """
    if len(columns) == 1:
        return columns[0]
    first = columns[0]
    return Column(
        np.concatenate([column.values for column in columns]),
        None if first.offsets is None else _joined([_whole(column.offsets) for column in columns]),
        None if first.inner is None else _joined([_whole(column.inner) for column in columns]),
        _masks(columns),
    )


def _whole(offsets: Offsets | None) -> Offsets:
    assert offsets is not None  # of one feature: all columns have them, or none
    return offsets


def _joined(parts: Sequence[Offsets]) -> Offsets:
    shifts = offsets_of([int(part[-1]) for part in parts])
    shifted = [part[1:] + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *shifted])


def _masks(columns: Sequence[Column]) -> Mask | None:
    if all(column.present is None for column in columns):
        return None
    return np.concatenate([_mask(column) for column in columns])


def _mask(column: Column) -> Mask:
    if column.present is not None:
        return column.present
    return np.ones(len(column.values) if column.offsets is None else len(column.offsets) - 1, np.bool_)
