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
from typing import TYPE_CHECKING, ClassVar

from datafeed.converters.batches import CHUNK_NBYTES, Reading, chunks_of
from datafeed.converters.files import Files
from datafeed.converters.leaves import Leaf
from datafeed.converters.names import shown
from datafeed.converters.parquet_facts import Facts, facts_of
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit
from datafeed.converters.table_files import TableFiles
from datafeed.errors import BadItem

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".pq")
CHUNK_ROWS = 65_536
READ_NBYTES = 2**20  # of a remote file, beside the columns, which Arrow asks for as a whole
UNEVEN_ROWS = 4096  # where values differ in size, those to come are unknown: a dictionary's count once in the footer


@dataclass(frozen=True)
class Parquet(TableFiles[Facts]):
    """Offer the rows of parquet files; a unit is a row group, read some MB at a time.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `int64_lists` and `columns` count here.
    """

    kind: ClassVar[str] = "parquet"
    called = "parquet"
    suffixes = SUFFIXES

    def _facts(self, file: Stamp) -> Facts | str:
        return facts_of(self.asked.files, file.path, self.asked.columns)

    def _units(self, file: Stamp, facts: Facts) -> Iterator[Unit]:
        return _groups(file, facts, self.asked.columns)

    def _first(self, file: Stamp, facts: Facts, rows: int, leaf: Leaf) -> pa.RecordBatch | None:
        groups = [group for group, held in enumerate(facts.rows) if held]
        return next(_batches(self.asked.files, file.path, groups[0], rows, [leaf]), None) if groups else None

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
