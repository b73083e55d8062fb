"""Read HDF5 files: data sets whose first axis counts samples.

A data set becomes the feature "group.name", a compound type a feature per field, "group.name.field". Lists of any
length are ragged; strings are utf8 where their character set is UTF-8, else bytes; an enum that counts from 0 is
integers with `classes`. Single values, attributes and links within the file are left out, and noted. Links to other
files, data sets that lie in others, references and unknown filters are refused by name: nothing outside a file is
opened. A file that is damaged, rows that cannot be read, and a row with text that is no UTF-8 are bad items. Several
files are read one after the other; those of 0 bytes or 0 rows are read as empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from datafeed.columns import Array
from datafeed.converters.array_columns import chunk_of
from datafeed.converters.array_fields import Fields, beside_nbytes, check_alike, check_lengths, features_of, fields_of
from datafeed.converters.hdf5_sets import (
    CACHE_NBYTES,
    HDF5_ERRORS,
    DataSet,
    Found,
    cache_nbytes,
    find_sets,
    nbytes_of,
    opened,
)
from datafeed.converters.hdf5_values import column_of, feature_of
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit, Where
from datafeed.errors import BadItem, ConfigError, DatafeedError, EmptySource, SourceError
from datafeed.schema import Schema
from datafeed.sizes import some

SUFFIXES = (".h5", ".hdf5", ".he5")
UNIT_NBYTES = 12 * 10**6
CHUNK_NBYTES = 2**20
WIDE_NBYTES = 2**26  # read at once where the chunks that a row touches cannot be kept
_UNEVEN_ROWS = 64  # to begin with


@dataclass(frozen=True)
class Hdf5:
    """Offer the rows of HDF5 files; a unit is a run of rows of whole chunks.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `int64_lists` and `columns` count here.
    """

    kind: ClassVar[str] = "hdf5"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name not in {"_listed", "_files"}}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        options: dict[str, object] = {"int64_lists": self.asked.int64_lists}
        return {**options, "columns": list(self.asked.columns)} if self.asked.columns else options

    def notes(self) -> Sequence[str]:
        """Say what is left out."""
        good = [found for _, found in self._files if isinstance(found, Found)]
        told = (
            ("a single value", [name for found in good for name in found.single]),
            ("a link", [name for found in good for name in found.again]),
            ("the attributes of", [name for found in good for name in found.noted]),
        )
        notes = [f"left out, {what}: {some(list(map(shown, dict.fromkeys(names))))}" for what, names in told if names]
        empty = len(self._listed) - len(self._files)
        if empty:
            notes.append(f"{empty} of the files ha{'s' if empty == 1 else 've'} 0 bytes")
        return notes

    @cached_property
    def _listed(self) -> list[Stamp]:
        return self.asked.files.some(self.path, SUFFIXES)

    @cached_property
    def _files(self) -> list[tuple[Stamp, Found | str]]:
        """List files with what they hold, or why they cannot be read."""
        return [(file, self._look(file)) for file in self._listed if file.nbytes]

    def _look(self, file: Stamp) -> Found | str:
        try:
            with opened(self.asked.files, file.path) as data:
                found = find_sets(data, file.path, self.asked.columns)
        except DatafeedError:
            raise
        except HDF5_ERRORS as exc:
            return f"it is no HDF5 file that can be read: {exc}"
        if not found.sets and self.asked.columns:
            there = some(list(map(shown, found.others)), 20)
            raise ConfigError(f"columns: no feature {self.asked.columns[0]!r}; {shown(file.path)} has {there}")
        if not found.sets:
            raise SourceError(f"{shown(file.path)}: no data set has an axis that counts samples")
        check_lengths(file.path, {name: data.rows for name, data in found.sets.items()})
        return found

    def schema(self) -> Schema:
        """Return what the data sets hold, from their types alone.

        Raises:
            SourceError: No file can be read, files or lengths differ, or no feature holds a data set.
            EmptySource: There is no row.
        """
        return Schema(features_of(self._fields))

    @cached_property
    def _fields(self) -> Fields:
        """Return what becomes of the data sets; a worker gets it with the source."""
        good = [(file.path, self._fields_of(file, found)) for file, found in self._files if _rows(found)]
        if not good:
            bad = [(file, found) for file, found in self._files if isinstance(found, str)]
            if not bad:
                raise EmptySource(f"{shown(self.path)}: no data set has a row")
            raise SourceError(f"no HDF5 file with rows can be read; the first is {shown(bad[0][0].path)}: {bad[0][1]}")
        for path, fields in good[1:]:
            check_alike(good[0][0], good[0][1], path, fields)
        return good[0][1]

    def _fields_of(self, file: Stamp, found: Found | str) -> Fields:
        assert isinstance(found, Found)
        forms = {name: data.form for name, data in found.sets.items()}
        feature = partial(feature_of, int64_lists=self.asked.int64_lists)
        return fields_of(file.path, forms, feature, self.asked.columns)

    def units(self) -> Sequence[Unit]:
        """List runs of rows.

        Raises:
            SourceError: As `schema`.
        """
        beside = beside_nbytes(self._fields)
        units: list[Unit] = []
        for file, found in self._files:
            if isinstance(found, str):
                units.append(Unit(file.path, file.nbytes, (file,), found))
            elif _rows(found):
                units += _cut(file, {name: found.sets[name] for name in self._fields}, beside)
        return units

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a run of rows, about a MB at a time; rows that cannot be read are one bad item.

        Raises:
            BadItem: The file cannot be read; or whatever `on_bad` raises.
        """
        path = unit.files[0].path
        if isinstance(unit.detail, str):
            raise BadItem(shown(path), unit.detail)
        for start, found in self._runs(unit):
            where = partial(_where, path, start)
            if isinstance(found, str):
                on_bad(BadItem(where(0), found))
                continue
            columns = {
                field.feature.name: column_of(field.feature, field.leaf.of(found[name]))
                for name, fields in self._fields.items()
                for field in fields
            }
            yield from chunk_of(columns, len(next(iter(found.values()))), where, on_bad)

    def _runs(self, unit: Unit) -> Iterator[tuple[int, dict[str, Array] | str]]:
        """Yield the rows of a unit by the names of the data sets, a few at a time, with the number of the first."""
        assert isinstance(unit.detail, tuple)
        sets, start, end = unit.detail
        step, uneven = _step(sets), any(data.uneven for data in sets.values())
        try:
            with opened(self.asked.files, unit.files[0].path, cache_nbytes(sets)) as file:
                while start < end:
                    high = min(start + step, end)
                    found = _read(file, sets, start, high)
                    yield start, found
                    if uneven and not isinstance(found, str):
                        nbytes = sum(map(nbytes_of, found.values()))
                        step = max(min(2 * step, CHUNK_NBYTES * (high - start) // max(nbytes, 1)), 1)
                    start = high
        except HDF5_ERRORS as exc:
            raise BadItem(f"{shown(unit.files[0].path)}:{start}", f"it cannot be read from there on: {exc}") from exc


def _where(path: str, start: int, row: int) -> str:
    return f"{shown(path)}:{start + row}"


def _rows(found: Found | str) -> int:
    return next((data.rows for data in found.sets.values()), 0) if isinstance(found, Found) else 0


def _cut(file: Stamp, sets: Mapping[str, DataSet], beside: int) -> Iterator[Unit]:
    """Yield the units of a file; the detail is (its data sets, the first row, the one behind the last)."""
    nbytes = sum(data.row_nbytes for data in sets.values()) + beside
    band = max(data.band_rows for data in sets.values())
    step = max(UNIT_NBYTES // nbytes // band, 1) * band
    rows = next(iter(sets.values())).rows
    for start in range(0, rows, step):
        end = min(start + step, rows)
        yield Unit(f"{file.path}#{start}", (end - start) * nbytes, (file,), (sets, start, end))


def _step(sets: Mapping[str, DataSet]) -> int:
    """Return how many rows are read at once."""
    nbytes = sum(data.row_nbytes for data in sets.values())
    kept = sum(data.band_nbytes for data in sets.values()) <= CACHE_NBYTES
    step = max((CHUNK_NBYTES if kept else WIDE_NBYTES) // max(nbytes, 1), 1)
    if any(data.uneven for data in sets.values()):
        return min(step, _UNEVEN_ROWS)
    band = max(data.band_rows for data in sets.values())
    return step // band * band or step


def _read(file: object, sets: Mapping[str, DataSet], start: int, end: int) -> dict[str, Array] | str:
    """Return rows by the names of the data sets, or why they cannot be read."""
    import h5py

    assert isinstance(file, h5py.File)
    try:
        return {name: file[data.path][start:end] for name, data in sets.items()}
    except HDF5_ERRORS as exc:
        return f"rows {start} to {end - 1} cannot be read: {exc}"
