"""Shuffle a source as it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from datafeed.columns import join_columns, offsets_of, take_rows
from datafeed.converters.array_rows import PAGE_NBYTES
from datafeed.converters.over import Over
from datafeed.converters.source import Addressed, Chunk, OnBad, Source, Table, Unit
from datafeed.errors import BadItem
from datafeed.splitmix import feistel, permutation, sample_key

WINDOW_NBYTES = 64 * 10**6  # raw bytes of a window, of which a worker holds two copies at most
MOST_TIMES = 16  # how often gathering rows may read their bytes, with the rest of the pages that they lie in
MOST_FILES = 1000  # to gather rows from: each is opened for each window
HELD_NBYTES = 256 * 10**6  # a window of one large unit, such as a packed tar, is given out whenever it holds that many
_PART_ROWS = 4096


@dataclass(frozen=True)
class Shuffled(Over):
    """Offer the samples of a source in another order.

    Where the source can read rows by number, the order is a permutation of all of them: a unit gathers the rows of
    consecutive positions. Otherwise its units are permuted, then the rows within windows of units, which hold about
    `WINDOW_NBYTES` of units that lay anywhere in the source. Rows of one unit then stay in one window, so this is no
    exact shuffle, unless the source fits in a window. A unit larger than `HELD_NBYTES` is permuted in runs of that
    size.

    Args:
        inner: The source.
        seed: Chooses the order.
    """

    inner: Source
    seed: int

    def units(self) -> Sequence[Unit]:
        """List the windows."""
        tables = self._tables
        return self._windows(self.inner.units()) if tables is None else self._gathered(tables)

    @cached_property
    def _tables(self) -> list[Table] | None:
        """Return what rows are gathered from; None to read windows. A worker gets it with the source."""
        if not isinstance(self.inner, Addressed):
            return None
        tables = self.inner.tables()
        return list(tables) if tables is not None and _worth_gathering(tables) else None

    def _gathered(self, tables: Sequence[Table]) -> list[Unit]:
        """List the units of a permutation of all rows; their detail is its positions."""
        good = [table for table in tables if table.rows]
        files = tuple(dict.fromkeys(file for table in good for file in table.unit.files))
        nbytes, rows = sum(table.unit.nbytes for table in good), sum(table.rows for table in good)
        count = max(-(-nbytes // WINDOW_NBYTES), 1)
        bounds = [rows * number // count for number in range(count + 1)]
        units = [
            Unit(f"rows {low}-{high - 1} of the shuffled", nbytes * (high - low) // rows, files, range(low, high))
            for low, high in pairwise(bounds)
        ]
        return units + self._windows([table.unit for table in tables if not table.rows])

    def _windows(self, found: Sequence[Unit]) -> list[Unit]:
        """List windows of units; their detail is their number and those."""
        windows: list[list[Unit]] = []
        nbytes = 0
        for place in permutation(len(found), sample_key(self.seed, 0, 0)).tolist():
            unit = found[place]
            if not windows or nbytes + unit.nbytes > WINDOW_NBYTES:
                windows.append([])
                nbytes = 0
            windows[-1].append(unit)
            nbytes += unit.nbytes
        return [_window(number, units) for number, units in enumerate(windows)]

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a window, its rows permuted; one that holds more than `HELD_NBYTES` in runs of that size."""
        if isinstance(unit.detail, range):
            number, chunks = unit.detail.start, self._picked(unit.detail, on_bad)
        else:
            assert isinstance(unit.detail, tuple)
            number, units = unit.detail
            chunks = self._chunks(units, on_bad)
        for run, held in enumerate(_runs(chunks)):
            yield from _permuted(held, sample_key(self.seed, 1 + run, number))

    def _chunks(self, units: Sequence[Unit], on_bad: OnBad) -> Iterator[Chunk]:
        for unit in units:
            try:
                yield from self.inner.read(unit, on_bad)
            except BadItem as exc:  # the rest of the window can be read
                on_bad(exc)

    def _picked(self, positions: range, on_bad: OnBad) -> Iterator[Chunk]:
        """Yield the rows at some positions of the permutation of all rows, in the order of the source."""
        assert isinstance(self.inner, Addressed)
        tables = [table for table in self._tables or () if table.rows]
        starts = offsets_of([table.rows for table in tables])
        places = np.arange(positions.start, positions.stop, dtype=np.uint64)
        rows = np.sort(feistel(places, int(starts[-1]), sample_key(self.seed, 0, 0)))
        cuts = np.searchsorted(rows, starts).tolist()
        for table, start, (low, high) in zip(tables, starts.tolist(), pairwise(cuts), strict=False):
            if low < high:
                try:
                    yield from self.inner.pick(table.unit, rows[low:high] - start, on_bad)
                except BadItem as exc:
                    on_bad(exc)

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        way = "windows" if self._tables is None else "exact"
        return {**self.inner.options(), "shuffle": way, "seed": self.seed}

    def notes(self) -> Sequence[str]:
        """Say how the rows are shuffled."""
        windows = self.units()
        large = sum(window.nbytes > HELD_NBYTES for window in windows)
        if self._tables is not None or (len(windows) == 1 and not large):
            return [*self.inner.notes(), "shuffled exactly"]
        size = WINDOW_NBYTES // 10**6
        notes = [*self.inner.notes()]
        notes.append(f"shuffled within windows of {size} MB: {len(windows):,} of them, each of units from anywhere")
        if large:
            size = HELD_NBYTES // 10**6
            notes.append(f"units of more than {size} MB, shuffled by runs of that size alone: {large:,}")
        return notes


def _worth_gathering(tables: Sequence[Table]) -> bool:
    """Whether rows are to be gathered from anywhere: not where that reads their files over and over."""
    good = [table for table in tables if table.rows]
    if not good or len({file for table in good for file in table.unit.files}) > MOST_FILES:
        return False
    nbytes = sum(table.unit.nbytes for table in good)
    pages = sum(table.rows * table.places for table in good) * PAGE_NBYTES
    return min((nbytes + pages) / nbytes, nbytes / WINDOW_NBYTES) <= MOST_TIMES


def _runs(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Gather chunks up to `HELD_NBYTES`; who takes a list may empty it."""
    held: list[Chunk] = []
    nbytes = 0
    for chunk in chunks:
        if not chunk.rows:
            continue
        held.append(chunk)
        nbytes += sum(part.nbytes for column in chunk.columns.values() for part in column if part is not None)
        if nbytes >= HELD_NBYTES:
            yield held
            held, nbytes = [], 0
    if held:
        yield held


def _permuted(chunks: list[Chunk], key: int) -> Iterator[Chunk]:
    """Yield the rows of chunks in another order; empties the list, so that no third copy is held."""
    ends = np.cumsum([chunk.rows for chunk in chunks], dtype=np.int64)
    columns = {name: join_columns([chunk.columns[name] for chunk in chunks]) for name in chunks[0].columns}
    wheres = [chunk.where for chunk in chunks]
    chunks.clear()
    order = permutation(int(ends[-1]), key).astype(np.int64)
    for start in range(0, len(order), _PART_ROWS):
        rows = order[start : start + _PART_ROWS]
        taken = {name: take_rows(column, rows) for name, column in columns.items()}
        yield Chunk(taken, len(rows), where=_Places(wheres, ends, rows))


def _window(number: int, units: Sequence[Unit]) -> Unit:
    files = dict.fromkeys(file for unit in units for file in unit.files)
    nbytes = sum(unit.nbytes for unit in units)
    name = f"window {number}: {units[0].name} and {len(units) - 1} more"
    return Unit(name, nbytes, tuple(files), (number, tuple(units)))


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Tell where a shuffled row came from.

    Args:
        wheres: What tells it of a row of each chunk.
        ends: The rows of all chunks up to each one's end.
        rows: The rows of all chunks, in the order in which they are given out.
    """

    wheres: Sequence[Callable[[int], str]]
    ends: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    def __call__(self, row: int) -> str:
        place = int(self.rows[row])
        chunk = int(np.searchsorted(self.ends, place, side="right"))
        return self.wheres[chunk](place - (int(self.ends[chunk - 1]) if chunk else 0))
