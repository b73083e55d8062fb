"""Read parquet files.

A struct becomes a feature per field, named "a.b". A struct of `bytes` and `path` that holds images, or that Hugging
Face's datasets says is a file, becomes the file under the struct's name, with "a.path" beside it. A column may be
missing only where the files allow nulls and their statistics do not rule them out; an empty list counts as null in
them. Columns of nothing but nulls are left out, and noted. A row with a null in a list, or with text that is no UTF-8,
is a bad item; rows count from 0 in their file. Files of 0 bytes or 0 rows are read as empty; a file without a readable
footer is a bad item.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from datafeed.converters.batches import CHUNK_NBYTES, Reading, chunks_of
from datafeed.converters.files import Files
from datafeed.converters.leaves import Leaf, dig
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.parquet_facts import Facts, facts_of
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit, Where
from datafeed.converters.tables import Wanted, columns_of, notes_of
from datafeed.errors import BadItem, EmptySource, SourceError
from datafeed.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".pq")
CHUNK_ROWS = 65_536
READ_NBYTES = 2**20  # of a remote file, beside the columns, which Arrow asks for as a whole
UNEVEN_ROWS = 4096  # where values differ in size, those to come are unknown: a dictionary's count once in the footer
_SNIFFED_ROWS = 16


@dataclass(frozen=True)
class Parquet:
    """Offer the rows of parquet files; a unit is a row group, read some MB at a time.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `int64_lists` and `columns` count here.
    """

    kind: ClassVar[str] = "parquet"
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
        """List files with what their footers say, or why they cannot be read."""
        files = self.asked.files
        found = files.some(self.path, SUFFIXES)
        return [(file, facts_of(files, file.path, self.asked.columns)) for file in found if file.nbytes]

    @property
    def _good(self) -> list[tuple[Stamp, Facts]]:
        return [(file, facts) for file, facts in self._files if isinstance(facts, Facts)]

    def schema(self) -> Schema:
        """Return the columns, from the footers alone; images are told by the first rows.

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
                f"no parquet file can be read; the first is {units[0].files[0].path!r}: {units[0].detail}"
            )
        return columns_of(self._good, self.asked, self._heads)

    def _heads(self, leaf: Leaf) -> list[bytes]:
        """Return the first bytes of the first values there are."""
        for file, facts in self._good:
            if any(facts.rows) and not facts.leaves[leaf.name].empty:
                group = int(np.flatnonzero(facts.rows)[0])
                batch = next(_batches(self.asked.files, file.path, group, _SNIFFED_ROWS, [leaf]))
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
        """List the row groups that hold rows.

        Raises:
            SourceError: A file cannot be looked at.
            EmptySource: There is no file, or no row.
        """
        units: list[Unit] = []
        for file, facts in self._files:
            if isinstance(facts, str):
                units.append(Unit(file.path, file.nbytes, (file,), facts))
            else:
                units += _groups(file, facts, self.asked.columns)
        if not units:
            raise EmptySource(f"{shown(self.path)}: no parquet file has a row")
        return units

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one row group.

        Raises:
            BadItem: The row group cannot be read; or whatever `on_bad` raises.
        """
        import pyarrow as pa

        path = unit.files[0].path
        if isinstance(unit.detail, str):
            raise BadItem(shown(path), unit.detail)
        assert isinstance(unit.detail, tuple)
        group, start, rows = unit.detail
        files = self.asked.files
        reading = Reading(path, files, self._columns, on_bad)
        leaves = [column.leaf for column in self._columns]
        try:
            for batch in _batches(files, path, group, rows, leaves):
                yield from chunks_of(reading, batch, range(start, start + len(batch)))
                start += len(batch)
        except (OSError, pa.ArrowException) as exc:
            raise BadItem(f"{shown(path)}:{start}", f"row group {group} cannot be read: {exc}") from exc


def _groups(file: Stamp, facts: Facts, columns: Sequence[str]) -> Iterator[Unit]:
    """Yield a unit per row group; its detail is (group, its first row, rows to read at a time)."""
    start = 0
    for group, (rows, nbytes) in enumerate(zip(facts.rows, facts.nbytes, strict=True)):
        if rows:
            most = (
                CHUNK_ROWS
                if all(leaf.width for leaf in facts.leaves.values() if leaf.is_wanted(columns))
                else UNEVEN_ROWS
            )
            at_once = max(min(CHUNK_NBYTES * rows // max(nbytes, 1), most), 1)  # 0 bytes: no column is wanted
            yield Unit(f"{file.path}#{group}", nbytes, (file,), (group, start, at_once))
        start += rows


def _batches(files: Files, path: str, group: int, rows: int, leaves: Sequence[Leaf]) -> Iterator[pa.RecordBatch]:
    from pyarrow.parquet import ParquetFile

    columns = [".".join(leaf.path[:-1] if leaf.of_file else leaf.path) for leaf in leaves]
    # Opened here, as Arrow takes no name that is not UTF-8.
    with files.open(path, read_ahead=READ_NBYTES) as raw, ParquetFile(raw, pre_buffer=True) as file:
        # A worker has one core; Arrow's own threads would only add to those of the other workers.
        yield from file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)
