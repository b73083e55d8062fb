"""Shuffle a source as it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datafeed.columns import join_columns, take_rows
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Source, Unit
from datafeed.order import permutation, sample_key
from datafeed.schema import Schema

WINDOW_NBYTES = 64 * 10**6  # raw bytes of a window, of which a worker holds two copies at most
_PART_ROWS = 4096


@dataclass(frozen=True)
class Shuffled:
    """Offer the samples of a source in another order: its units permuted, then the rows within windows of units.

    A window holds about `WINDOW_NBYTES` of units that lay anywhere in the source; its rows are permuted exactly. Rows
    of one unit stay in one window, so this is no exact shuffle, unless the source fits in a window.

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
        """Read a window, its rows permuted."""
        assert isinstance(unit.detail, tuple)
        number, units = unit.detail
        chunks = [chunk for one in units for chunk in self.inner.read(one, on_bad) if chunk.rows]
        if not chunks:
            return
        ends = np.cumsum([chunk.rows for chunk in chunks], dtype=np.int64)
        names = list(chunks[0].columns)
        columns = {name: join_columns([chunk.columns[name] for chunk in chunks]) for name in names}
        wheres = [chunk.where for chunk in chunks]
        del chunks
        order = permutation(int(ends[-1]), sample_key(self.seed, 1, number)).astype(np.int64)
        for start in range(0, len(order), _PART_ROWS):
            rows = order[start : start + _PART_ROWS]
            taken = {name: take_rows(column, rows) for name, column in columns.items()}
            yield Chunk(taken, len(rows), where=_Places(wheres, ends, rows))

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {**self.inner.options(), "shuffle": "windows", "seed": self.seed}

    def notes(self) -> Sequence[str]:
        """Say how the rows are shuffled."""
        windows = len(self.units())
        if windows == 1:
            return self.inner.notes()
        said = f"shuffled in {windows:,} windows of about {WINDOW_NBYTES // 10**6} MB, each of units from anywhere"
        return [*self.inner.notes(), said]


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
