"""Read NumPy's files: arrays whose first axis counts samples.

A single .npy file, or several whose names differ in digits alone and which stand for one array, give the feature
"data"; .npy files of other names give a feature each, as do the arrays of a .npz file. Several .npz files are read one
after the other. A structured dtype becomes a feature per field, named "a.b". `S` is bytes, `U` utf8, both without the
NULs behind them; NaT stays the smallest int64. Arrays of objects are pickled, and never unpickled. A file that is
damaged, or larger or smaller than its header says, is a bad item, as is a row with text that is no Unicode. Files of 0
bytes and arrays of 0 rows are read as empty; single values beside arrays are left out, and noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from datafeed.columns import Array
from datafeed.converters.array_columns import chunk_of, column_of
from datafeed.converters.array_fields import Fields, beside_nbytes, check_alike, feature_of, features_of, fields_of
from datafeed.converters.array_rows import INFLATED_NBYTES, Stored, opened, pick
from datafeed.converters.files import Files
from datafeed.converters.names import shown
from datafeed.converters.npz import ZIP_ERRORS
from datafeed.converters.numpy_parts import Group, Part, groups_of, notes_of, parts_of
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, Numbers, OnBad, Stamp, Table, Unit, Where
from datafeed.errors import BadItem, EmptySource, SourceError
from datafeed.schema import Schema
from datafeed.storage import local_path

UNIT_NBYTES = 12 * 10**6
SCATTERED_NBYTES = 64 * 10**6  # the more rows, the longer the runs that are read
CHUNK_NBYTES = 2**20
PICKED_NBYTES = 2**23


@dataclass(frozen=True)
class NumpyFiles:
    """Offer the rows of arrays; a unit is a run of rows.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `int64_lists` and `columns` count here.
    """

    kind: ClassVar[str] = "numpy"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name not in {"_groups", "_parts"}}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        options: dict[str, object] = {"int64_lists": self.asked.int64_lists}
        return {**options, "columns": list(self.asked.columns)} if self.asked.columns else options

    def notes(self) -> Sequence[str]:
        """Say how files are understood, and what is left out."""
        return notes_of(self._groups, self._parts)

    @cached_property
    def _groups(self) -> list[Group]:
        return groups_of(self.asked.files, self.path)

    @cached_property
    def _parts(self) -> list[Part | Unit]:
        """Return the parts; one that cannot be read as the unit that says so."""
        return list(parts_of(self.asked.files, self._groups, self.asked.columns))

    def schema(self) -> Schema:
        """Return what the arrays hold, from their headers alone.

        Raises:
            SourceError: No file can be read, files or lengths differ, or no feature holds an array.
            EmptySource: There is no row.
        """
        return Schema(features_of(self._fields))

    @cached_property
    def _fields(self) -> Fields:
        """Return what becomes of the arrays; a worker gets it with the source."""
        parts = [part for part in self._parts if isinstance(part, Part) and part.rows]
        if not parts:
            bad = [part for part in self._parts if isinstance(part, Unit)]
            if not bad:
                raise EmptySource(f"{shown(self.path)}: no array has a row")
            raise SourceError(
                f"no NumPy file with rows can be read; the first is {shown(bad[0].files[0].path)}: {bad[0].detail}"
            )
        fields = self._fields_of(parts[0])
        for part in parts[1:]:
            check_alike(parts[0].path, fields, part.path, self._fields_of(part))
        return fields

    def _fields_of(self, part: Part) -> Fields:
        for name, array in part.arrays.items():
            if array.packed and array.scattered and array.header.data_nbytes > INFLATED_NBYTES:
                raise SourceError(
                    f"{shown(part.path)}: {shown(name)} is compressed and in Fortran order, so that all its "
                    f"{array.header.data_nbytes} bytes would have to be held: write it in C order, or by np.savez"
                )
        forms = {name: (array.header.dtype, array.header.shape[1:]) for name, array in part.arrays.items()}
        feature = partial(feature_of, int64_lists=self.asked.int64_lists)
        return fields_of(part.path, forms, feature, self.asked.columns)

    def units(self) -> Sequence[Unit]:
        """List runs of rows.

        Raises:
            SourceError: As `schema`.
        """
        beside = beside_nbytes(self._fields)
        units: list[Unit] = []
        for part in self._parts:
            units += [part] if isinstance(part, Unit) else _cut(part, self._fields, beside)
        return units

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a run of rows, about a MB at a time.

        Raises:
            BadItem: The files cannot be read; or whatever `on_bad` raises.
        """
        for numbers, found in _runs(self.asked.files, unit):
            yield from self._chunk(unit, numbers, found, on_bad)

    def _chunk(
        self, unit: Unit, numbers: range | Numbers, found: Mapping[str, Array], on_bad: OnBad
    ) -> Iterator[Chunk]:
        columns = {
            field.feature.name: column_of(field.feature, field.leaf.of(found[name]))
            for name, fields in self._fields.items()
            for field in fields
        }
        yield from chunk_of(columns, len(numbers), _Where(unit.files[0].path, numbers), on_bad)

    def tables(self) -> Sequence[Table] | None:
        """List the parts; None where an array is remote, packed or in Fortran order."""
        beside = beside_nbytes(self._fields)
        tables: list[Table] = []
        for part in self._parts:
            if isinstance(part, Unit):
                tables.append(Table(part, 0, 0))
            elif part.rows:
                arrays, files, nbytes = _wanted(part, self._fields)
                if any(array.packed or array.scattered for array in arrays.values()) or not all(map(_is_local, files)):
                    return None
                unit = Unit(files[0].path, part.rows * (nbytes + beside), files, arrays)
                tables.append(Table(unit, part.rows, len(arrays)))
        return tables

    def pick(self, unit: Unit, rows: Numbers, on_bad: OnBad) -> Iterator[Chunk]:
        """Read some rows of a part."""
        assert isinstance(unit.detail, dict)
        arrays: dict[str, Stored] = unit.detail
        step = max(PICKED_NBYTES // sum(array.row_nbytes for array in arrays.values()), 1)
        try:
            with ExitStack() as stack:
                opened_files = {
                    file.path: stack.enter_context(self.asked.files.open(file.path)).fileno() for file in unit.files
                }
                for low in range(0, len(rows), step):
                    numbers = rows[low : low + step]
                    found = {
                        name: pick(opened_files[array.file.path], array, numbers) for name, array in arrays.items()
                    }
                    yield from self._chunk(unit, numbers, found, on_bad)
        except (OSError, EOFError) as exc:
            raise BadItem(shown(unit.files[0].path), f"{len(rows)} rows cannot be read: {exc}") from exc


def _is_local(file: Stamp) -> bool:
    return local_path(file.path) is not None


@dataclass(frozen=True, slots=True, eq=False)
class _Where:
    path: str
    numbers: range | Numbers

    def __call__(self, row: int) -> str:
        return f"{shown(self.path)}:{self.numbers[row]}"


def _wanted(part: Part, fields: Fields) -> tuple[dict[str, Stored], tuple[Stamp, ...], int]:
    """Return the arrays of a part that are wanted, their files, and the size of a row."""
    arrays = {name: part.arrays[name] for name in fields}
    files = tuple(dict.fromkeys(array.file for array in arrays.values()))
    return arrays, files, sum(array.row_nbytes for array in arrays.values())


def _cut(part: Part, fields: Fields, beside: int) -> Iterator[Unit]:
    """Yield the units of a part; the detail is (its arrays, the first row, the one behind the last)."""
    arrays, files, nbytes = _wanted(part, fields)
    nbytes += beside
    aim = SCATTERED_NBYTES if any(array.scattered for array in arrays.values()) else UNIT_NBYTES
    rows = part.rows if any(array.packed for array in arrays.values()) else max(aim // nbytes, 1)
    for start in range(0, part.rows, rows):
        end = min(start + rows, part.rows)
        yield Unit(f"{files[0].path}#{start}", (end - start) * nbytes, files, (arrays, start, end))


def _runs(files: Files, unit: Unit) -> Iterator[tuple[range, dict[str, Array]]]:
    """Yield the rows of a unit by the names of the arrays, a few at a time, with their numbers."""
    path = shown(unit.files[0].path)
    if isinstance(unit.detail, str):
        raise BadItem(path, unit.detail)
    assert isinstance(unit.detail, tuple)
    arrays, start, end = unit.detail
    step = max(CHUNK_NBYTES // sum(array.row_nbytes for array in arrays.values()), 1)
    try:
        with ExitStack() as stack:
            read = {name: stack.enter_context(opened(files, array, start, end)) for name, array in arrays.items()}
            for low in range(start, end, step):
                start, high = low, min(low + step, end)
                yield range(low, high), {name: rows(low, high) for name, rows in read.items()}
    except ZIP_ERRORS as exc:
        raise BadItem(
            f"{shown(unit.files[0].path)}:{start}", f"rows {start} to {end - 1} cannot be read: {exc}"
        ) from exc
