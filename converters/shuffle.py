"""Shuffle a source as it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datafeed.columns import join_columns, take_rows
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Source, Unit
from datafeed.errors import BadItem
from datafeed.order import permutation, sample_key
from datafeed.schema import Schema

WINDOW_NBYTES = 64 * 10**6  # raw bytes of a window, of which a worker holds two copies at most
HELD_NBYTES = 256 * 10**6  # a window of one large unit, such as a packed tar, is given out whenever it holds that many
_PART_ROWS = 4096


@dataclass(frozen=True)
class Shuffled:
    """Offer the samples of a source in another order: its units permuted, then the rows within windows of units.

    A window holds about `WINDOW_NBYTES` of units that lay anywhere in the source; its rows are permuted exactly. Rows
    of one unit stay in one window, so this is no exact shuffle, unless the source fits in a window. A unit larger than
    `HELD_NBYTES` is permuted in runs of that size.

    Args:
        inner: The source.
        seed: Chooses the order.
    """

    inner: Source
    seed: int

    @property
    def kind(self) -> str:
        """The source's kind."""
        return self.inner.kind

    @property
    def asked(self) -> SourceOptions:
        """How the source is read."""
        return self.inner.asked

    def schema(self) -> Schema:
        """Return the source's schema."""
        return self.inner.schema()

    def units(self) -> Sequence[Unit]:
        """List the windows."""
        found = self.inner.units()
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
        assert isinstance(unit.detail, tuple)
        number, units = unit.detail
        for run, chunks in enumerate(_runs(self._chunks(units, on_bad))):
            yield from _permuted(chunks, sample_key(self.seed, 1 + run, number))

    def _chunks(self, units: Sequence[Unit], on_bad: OnBad) -> Iterator[Chunk]:
        for unit in units:
            try:
                yield from self.inner.read(unit, on_bad)
            except BadItem as exc:  # the rest of the window can be read
                on_bad(exc)

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {**self.inner.options(), "shuffle": "windows", "seed": self.seed}

    def notes(self) -> Sequence[str]:
        """Say how the rows are shuffled."""
        windows = self.units()
        notes = [*self.inner.notes()]
        if len(windows) > 1:
            size = WINDOW_NBYTES // 10**6
            notes.append(f"shuffled in {len(windows):,} windows of about {size} MB, each of units from anywhere")
        large = sum(window.nbytes > HELD_NBYTES for window in windows)
        if large:
            size = HELD_NBYTES // 10**6
            notes.append(f"units of more than {size} MB, shuffled by runs of that size alone: {large:,}")
        return notes


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
