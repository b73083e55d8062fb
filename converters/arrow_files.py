"""Read Arrow IPC files and streams; a Feather file of version 2 is such a file.

A struct becomes a feature per field, named "a.b". A struct of `bytes` and `path` that holds images, or that Hugging
Face's datasets says is a file, becomes the file under the struct's name, with "a.path" beside it. A column may be
missing where a record batch counts nulls in it, whatever the schema allows: the counts stand in the headers of the
batches, which are read beforehand. Columns of nothing but nulls are left out, and noted. A row with a null in a list,
or with text that is no UTF-8, is a bad item; rows count from 0 in their file. Files of 0 bytes or 0 rows are read as
empty; a file that is none or has no footer, and the rest of a stream that is cut, are bad items.

Local files are mapped into memory. A record batch that is compressed, or of a remote file, is held as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from datafeed.converters.arrow_batches import batches_of, picked
from datafeed.converters.arrow_facts import Facts, Run, facts_of
from datafeed.converters.arrow_layout import Layout
from datafeed.converters.batches import Reading, chunks_of
from datafeed.converters.leaves import Leaf, dig
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, Numbers, OnBad, Stamp, Table, Unit, Where
from datafeed.converters.tables import Wanted, columns_of, notes_of
from datafeed.errors import BadItem, EmptySource, SourceError
from datafeed.schema import Schema

SUFFIXES = (".arrow", ".feather", ".ipc")
_SNIFFED_ROWS = 16


@dataclass(frozen=True)
class ArrowFiles:
    """Offer the rows of Arrow files; a unit is a run of record batches, or of rows of a large one.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `int64_lists` and `columns` count here.
    """

    kind: ClassVar[str] = "arrow"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name != "_files"}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        options: dict[str, object] = {"int64_lists": self.asked.int64_lists}
        return {**options, "columns": list(self.asked.columns)} if self.asked.columns else options

    @cached_property
    def _files(self) -> list[tuple[Stamp, Facts | str]]:
        """List files with what their messages say, or why they cannot be read."""
        files = self.asked.files
        found = files.some(self.path, SUFFIXES)
        return [(file, facts_of(files, file, self.asked.columns)) for file in found if file.nbytes]

    @property
    def _good(self) -> list[tuple[Stamp, Facts]]:
        return [(file, facts) for file, facts in self._files if isinstance(facts, Facts)]

    def schema(self) -> Schema:
        """Return the columns, from the headers alone; images are told by the first rows.

        Raises:
            SourceError: No file can be read, the files' columns differ, or no feature holds one of them.
            ConfigError: A column is asked for that is not there.
            EmptySource: There is no row.
        """
        return Schema([column.feature for column in self._columns])

    @cached_property
    def _columns(self) -> list[Wanted]:
        """Return what becomes of the columns; a worker gets it with the source."""
        units = self.units()
        if not self._good:
            raise SourceError(
                f"no Arrow file can be read; the first is {shown(units[0].files[0].path)}: {units[0].detail}"
            )
        return columns_of(self._good, self.asked, self._heads)

    def _heads(self, leaf: Leaf) -> list[bytes]:
        """Return the first bytes of the first values there are."""
        for file, facts in self._good:
            if facts.runs and not facts.leaves[leaf.name].empty:
                first = facts.runs[0]._replace(rows=_SNIFFED_ROWS)
                batch = next(batches_of(self.asked.files, file.path, first, [leaf]))
                heads = [value[:16] for value in dig(batch, leaf.path).to_pylist() if value is not None]
                if heads:
                    return heads
        return []

    def notes(self) -> Sequence[str]:
        """Say what was left out."""
        notes = list(notes_of(self._good, self.asked))
        empty = len(self.asked.files.listed(self.path, SUFFIXES)) - len(self._files)
        if empty:
            notes.append(f"{empty} of the files ha{'s' if empty == 1 else 've'} 0 bytes")
        return notes

    def units(self) -> Sequence[Unit]:
        """List runs of record batches that hold rows.

        Raises:
            SourceError: A file cannot be looked at.
            EmptySource: There is no file, or no row.
        """
        units: list[Unit] = []
        for file, facts in self._files:
            if isinstance(facts, str):
                units.append(Unit(file.path, file.nbytes, (file,), facts))
                continue
            units += [Unit(f"{file.path}:{run.start}", run.nbytes, (file,), run) for run in facts.runs]
            if facts.broken:
                units.append(Unit(f"{file.path}: the rest", 0, (file,), facts.broken))
        if not units:
            raise EmptySource(f"{shown(self.path)}: no Arrow file has a row")
        return units

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one run.

        Raises:
            BadItem: The run cannot be read; or whatever `on_bad` raises.
        """
        import pyarrow as pa

        path = unit.files[0].path
        if isinstance(unit.detail, str):
            raise BadItem(shown(path), unit.detail)
        assert isinstance(unit.detail, tuple)
        run = Run(*unit.detail)
        files = self.asked.files
        reading = Reading(path, files, self._columns, on_bad)
        start = run.start
        try:
            for batch in batches_of(files, path, run, [column.leaf for column in self._columns]):
                yield from chunks_of(reading, batch, range(start, start + len(batch)))
                start += len(batch)
        except (OSError, pa.ArrowException) as exc:
            raise BadItem(f"{shown(path)}:{start}", f"its record batch cannot be read: {exc}") from exc

    def tables(self) -> Sequence[Table] | None:
        """List the files; None where one is remote, or its record batches compressed."""
        tables: list[Table] = []
        for file, facts in self._files:
            if isinstance(facts, str):
                tables.append(Table(Unit(file.path, file.nbytes, (file,), facts), 0, 0))
                continue
            if facts.layout is None:
                return None
            rows, nbytes = sum(run.rows for run in facts.runs), sum(run.nbytes for run in facts.runs)
            if rows:
                tables.append(Table(Unit(file.path, nbytes, (file,), facts.layout), rows, facts.places))
            if facts.broken:
                tables.append(Table(Unit(f"{file.path}: the rest", 0, (file,), facts.broken), 0, 0))
        return tables

    def pick(self, unit: Unit, rows: Numbers, on_bad: OnBad) -> Iterator[Chunk]:
        """Read some rows of a file."""
        import pyarrow as pa

        path = unit.files[0].path
        assert isinstance(unit.detail, Layout)
        reading = Reading(path, self.asked.files, self._columns, on_bad)
        leaves = [column.leaf for column in self._columns]
        try:
            for low, batch in picked(self.asked.files, path, unit.detail, rows, leaves):
                yield from chunks_of(reading, batch, rows[low : low + len(batch)])
        except (OSError, pa.ArrowException) as exc:
            raise BadItem(shown(path), f"{len(rows)} rows cannot be read: {exc}") from exc
