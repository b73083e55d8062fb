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
from typing import TYPE_CHECKING, ClassVar

from datafeed.converters.arrow_batches import batches_of, picked
from datafeed.converters.arrow_facts import Facts, Run, facts_of
from datafeed.converters.arrow_layout import Layout
from datafeed.converters.batches import Reading, chunks_of
from datafeed.converters.leaves import Leaf
from datafeed.converters.names import shown
from datafeed.converters.source import Chunk, Numbers, OnBad, Stamp, Table, Unit
from datafeed.converters.table_files import TableFiles
from datafeed.errors import BadItem

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class ArrowFiles(TableFiles[Facts]):
    """Offer the rows of Arrow files; a unit is a run of record batches, or of rows of a large one.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `int64_lists` and `columns` count here.
    """

    kind: ClassVar[str] = "arrow"
    called = "Arrow"
    suffixes = SUFFIXES

    def _facts(self, file: Stamp) -> Facts | str:
        return facts_of(self.asked.files, file, self.asked.columns)

    def _units(self, file: Stamp, facts: Facts) -> Iterator[Unit]:
        for run in facts.runs:
            yield Unit(f"{file.path}:{run.start}", run.nbytes, (file,), run)
        if facts.broken:
            yield Unit(f"{file.path}: the rest", 0, (file,), facts.broken)

    def _first(self, file: Stamp, facts: Facts, rows: int, leaf: Leaf) -> pa.RecordBatch | None:
        if not facts.runs:
            return None
        return next(batches_of(self.asked.files, file.path, facts.runs[0]._replace(rows=rows), [leaf]), None)

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
