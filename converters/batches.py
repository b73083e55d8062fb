"""Turn record batches into chunks of samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from datafeed.converters import beside
from datafeed.converters.arrow import column_of, plain, reshaped, unfit_rows
from datafeed.converters.files import Files
from datafeed.converters.leaves import dig
from datafeed.converters.names import shown
from datafeed.converters.source import Chunk, Numbers, OnBad, Stamp
from datafeed.converters.tables import Wanted
from datafeed.errors import BadItem
from datafeed.schema import Feature

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_NBYTES = 4 * 2**20
_LOOK_ROWS = 256  # whose files beside the table are looked at together

_Arrays = dict[Feature, "pa.Array"]


@dataclass(frozen=True, slots=True)
class Reading:
    """Say where record batches come from, and what is wanted of them.

    Args:
        path: Their file.
        files: What reaches it.
        columns: What becomes of their leaves.
        on_bad: What to do with a row that cannot become a sample.
    """

    path: str
    files: Files
    columns: Sequence[Wanted]
    on_bad: OnBad


def chunks_of(reading: Reading, batch: pa.RecordBatch, numbers: range | Numbers) -> Iterator[Chunk]:
    """Turn a record batch into chunks of a few MB.

    Args:
        reading: Where it comes from.
        batch: Its rows.
        numbers: The numbers of its rows in the file.

    Yields:
        The samples, which may share the batch's memory.

    Raises:
        BadItem: Whatever `on_bad` raises.
    """
    for place, part in _parts(batch):
        those = numbers[place : place + len(part)]
        arrays = {column.feature: dig(part, column.leaf.path) for column in reading.columns}
        bad: dict[int, str] = {}
        for column in reading.columns:
            if column.leaf.shaped:
                arrays[column.feature], odd = reshaped(column.feature, arrays[column.feature], column.leaf.kind)
                bad = {**odd, **bad}
        named = _named(reading, part, arrays)
        if any(named.values()):
            yield from _with_files(reading, (arrays, bad, named), those)
        else:
            yield from _chunk(reading, arrays, bad, those)


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield runs of a batch's rows, each with the place of its first."""
    rows = max(CHUNK_NBYTES * len(batch) // max(batch.nbytes, 1), 1)
    for start in range(0, len(batch), rows):
        yield start, batch.slice(start, rows)


def _named(reading: Reading, part: pa.RecordBatch, arrays: _Arrays) -> dict[Feature, dict[int, str]]:
    """Return, by feature and row, the paths that stand in place of bytes."""
    named: dict[Feature, dict[int, str]] = {}
    for column in reading.columns:
        lacking = arrays[column.feature].is_null()
        if column.leaf.of_file and column.leaf.media is not None and lacking.true_count:
            names = dig(part, (*column.leaf.path[:-1], "path"))
            rows = np.flatnonzero(lacking.to_numpy(zero_copy_only=False)).tolist()
            named[column.feature] = {row: name for row in rows if (name := names[row].as_py())}
    return named


def _with_files(
    reading: Reading, part: tuple[_Arrays, dict[int, str], dict[Feature, dict[int, str]]], numbers: range | Numbers
) -> Iterator[Chunk]:
    """Read files in place of bytes that lack, a few MB at a time."""
    arrays, bad, named = part
    count = len(next(iter(arrays.values())))
    for first in range(0, count, _LOOK_ROWS):
        last = min(first + _LOOK_ROWS, count)
        found = {
            (feature, row): beside.find(reading.files, reading.path, names[row])
            for feature, names in named.items()
            for row in range(first, last)
            if row in names
        }
        for low, high in _cut(first, last, found):
            piece = {feature: array.slice(low, high - low) for feature, array in arrays.items()}
            lost = {row - low: reason for row, reason in bad.items() if low <= row < high}
            for feature, names in named.items():
                wanted = [row for row in range(low, high) if row in names]
                data = beside.read(reading.files, [found[feature, row] for row in wanted])
                piece[feature], odd = _filled(piece[feature], [row - low for row in wanted], data)
                reasons = {row: f"{feature.name!r} has a path, {names[row + low]!r}, {why}" for row, why in odd.items()}
                lost = {**reasons, **lost}
            yield from _chunk(reading, piece, lost, numbers[low:high])


def _cut(first: int, last: int, found: dict[tuple[Feature, int], Stamp | str]) -> Iterator[tuple[int, int]]:
    """Cut rows so that the files of each run take `CHUNK_NBYTES` or less, or are those of one row."""
    sizes = [0] * (last - first)
    for (_, row), file in found.items():
        sizes[row - first] += file.nbytes if isinstance(file, Stamp) else 0
    low = first
    nbytes = 0
    for row, size in enumerate(sizes, first):
        if nbytes + size > CHUNK_NBYTES and row > low:
            yield low, row
            low, nbytes = row, 0
        nbytes += size
    yield low, last


def _filled(array: pa.Array, rows: Sequence[int], data: Sequence[bytes | str]) -> tuple[pa.Array, dict[int, str]]:
    """Return an array with bytes in some rows; and the rows that have none, with the reason."""
    import pyarrow as pa

    values = array.to_pylist()
    lost: dict[int, str] = {}
    for row, one in zip(rows, data, strict=True):
        if isinstance(one, str):
            lost[row] = one
        else:
            values[row] = one
    return pa.array(values, pa.large_binary()), lost


def _chunk(reading: Reading, arrays: _Arrays, lost: dict[int, str], numbers: range | Numbers) -> Iterator[Chunk]:
    path = reading.path
    count = len(next(iter(arrays.values())))
    bad = dict(lost)
    for feature, array in arrays.items():
        bad = {**unfit_rows(feature, array), **bad}
    for row in sorted(bad):
        reading.on_bad(BadItem(f"{shown(path)}:{numbers[row]}", bad[row], _as_text(arrays, row)))
    rows = np.delete(np.arange(count), list(bad))
    if not len(rows):
        return
    if bad:
        arrays = {feature: array.take(rows) for feature, array in arrays.items()}
    columns = {feature.name: column_of(feature, array) for feature, array in arrays.items()}
    yield Chunk(columns, len(rows), where=lambda row: f"{shown(path)}:{numbers[int(rows[row])]}")


def _as_text(arrays: _Arrays, row: int) -> bytes:
    """Return a row for quarantine, as Python writes it."""
    return repr({feature.name: _value(feature, array.slice(row, 1)) for feature, array in arrays.items()}).encode()


def _value(feature: Feature, one: pa.Array) -> object:
    """Return the one value of an array; text as bytes where it stands alone, or is no UTF-8."""
    if feature.dtype != "utf8" or one.null_count:
        return plain(one).to_pylist()[0]
    if feature.shape:
        try:
            return plain(one).to_pylist()[0]
        except UnicodeDecodeError:
            pass
    column = column_of(feature, one)
    if column.inner is None:
        return column.values.tobytes()
    return [column.values[start:end].tobytes() for start, end in pairwise(column.inner.tolist())]
