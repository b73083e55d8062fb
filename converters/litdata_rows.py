"""Read the rows that LitData keeps as an Arrow file at the end of a chunk, where items are dicts of plain values.

Behind the Arrow file stand its size (u32) and eight bytes that mark it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from datafeed.converters.batches import Reading, chunks_of
from datafeed.converters.files import Files
from datafeed.converters.item_table import Readable, TableError
from datafeed.converters.item_units import ItemFile, part_of
from datafeed.converters.leaves import Leaf, dig, leaves_of, twice
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.sound import check_sound
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit
from datafeed.converters.tables import Wanted, columns_of
from datafeed.errors import BadItem, MissingExtra, SourceError
from datafeed.schema import Feature

if TYPE_CHECKING:
    import pyarrow as pa

MARK = b"LDARW01\0"
_TAIL_NBYTES = 4 + len(MARK)
_READ_NBYTES = 2**16
_SNIFFED_ROWS = 16


@dataclass(frozen=True, slots=True)
class Facts:
    """Hold what a chunk's rows are.

    Args:
        leaves: The columns by name.
        nulls: The names of those that may lack a value.
    """

    leaves: Mapping[str, Leaf]
    nulls: frozenset[str]

    def may_lack(self, name: str) -> bool:
        """Whether the column may lack a value."""
        return name in self.nulls


def has_rows(files: Files, chunk: Stamp) -> bool:
    """Whether a chunk ends in an Arrow file.

    Raises:
        OSError: It cannot be read.
    """
    with files.open(chunk.path, read_ahead=_READ_NBYTES) as file:
        file.seek(max(chunk.nbytes - len(MARK), 0))
        return file.read(len(MARK)) == MARK


def facts_of(files: Files, chunk: Stamp, types: str) -> Facts | str:
    """Read the schema of a chunk's rows.

    Args:
        files: What reaches it.
        chunk: The chunk.
        types: What its index says of the rows' types, as JSON.

    Returns:
        What they are; or why they cannot be read.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    pa = _arrow()
    try:
        with files.open(chunk.path, read_ahead=_READ_NBYTES) as file:
            start, end = _span(file, chunk.nbytes)
            schema = pa.ipc.open_file(pa.PythonFile(_Within(file, start, end), "r")).schema
    except (OSError, TableError, pa.ArrowException) as exc:
        return f"its rows cannot be read: {exc}"
    leaves = [leaf for leaf, _ in leaves_of(schema)]
    name = twice(leaves)
    if name is not None or not leaves:
        return f"two of its columns share the name {name!r}" if leaves else "its rows have no column"
    known = json.loads(types)
    return Facts(
        {leaf.name: leaf for leaf in leaves},
        frozenset(leaf.name for leaf in leaves if leaf.empty or _may_lack(known, leaf.path)),
    )


def _may_lack(types: object, path: Sequence[str]) -> bool:
    """Whether the index says that a value may lack, or does not say that it is always there."""
    at: object = types
    for name in path:
        if isinstance(at, dict) and at.get("type") == "struct":
            at = at.get("fields")
        if not isinstance(at, dict) or name not in at:
            return True
        at = at[name]
        if isinstance(at, dict) and at.get("optional"):
            return True
    return False


def heads(files: Files, chunk: Stamp, leaf: Leaf) -> list[bytes]:
    """Return the first bytes of a column's first values."""
    batch = next(batches(files, chunk, [leaf]), None)
    values = [] if batch is None else dig(batch.slice(0, _SNIFFED_ROWS), leaf.path).to_pylist()
    return [value[:16] for value in values if value is not None]


def batches(files: Files, chunk: Stamp, leaves: Sequence[Leaf]) -> Iterator[pa.RecordBatch]:
    """Yield a chunk's rows; the chunk is held as a whole.

    Raises:
        TableError, OSError, pyarrow.ArrowException: It cannot be read.
    """
    pa = _arrow()
    with files.open(chunk.path) as file:
        start, end = _span(file, chunk.nbytes)
        file.seek(start)
        data = file.read(end - start)
    source = pa.py_buffer(data)
    names = {leaf.path[0] for leaf in leaves}
    wanted = [number for number, name in enumerate(pa.ipc.open_file(source).schema.names) if name in names]
    # A worker has one core; Arrow's own threads would only add to those of the other workers.
    options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
    rows = pa.ipc.open_file(source, options=options)
    for number in range(rows.num_record_batches):
        batch = rows.get_batch(number)
        check_sound(batch, leaves)
        yield batch


def _span(file: Readable, nbytes: int) -> tuple[int, int]:
    """Return where a chunk's Arrow file begins and ends."""
    end = nbytes - _TAIL_NBYTES
    file.seek(max(end, 0))
    tail = file.read(_TAIL_NBYTES)
    if end < 0 or tail[4:] != MARK:
        raise TableError("it has no Arrow rows at its end, where other chunks have them")
    start = end - int.from_bytes(tail[:4], "little")
    if start < 0:
        raise TableError(f"its Arrow rows would begin {-start} bytes before it")
    return start, end


class _Within:
    """Read a part of a file as if it were one."""

    closed = False

    def __init__(self, file: Readable, start: int, end: int) -> None:
        self._file = file
        self._start, self._end = start, end
        self._at = 0

    def seek(self, at: int, whence: int = 0) -> int:
        """Go to a position, from the end where `whence` is 2, from here where it is 1."""
        self._at = at + (0, self._at, self._end - self._start)[whence]
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def read(self, nbytes: int = -1) -> bytes:
        """Return the next bytes."""
        left = self._end - self._start - self._at
        self._file.seek(self._start + self._at)
        data = self._file.read(left if nbytes < 0 else min(nbytes, max(left, 0)))
        self._at += len(data)
        return data

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it has positions."""
        return True

    def close(self) -> None:
        """Leave the file open: it belongs to the caller."""
        self.closed = True


def _arrow() -> pa:
    try:
        import pyarrow as pa
        from pyarrow import ipc  # noqa: F401  (an attribute of pyarrow from then on)
    except ImportError as exc:
        raise MissingExtra("pyarrow", "parquet", "to read the rows of LitData chunks") from exc
    return pa


@dataclass(frozen=True, slots=True)
class Rows:
    """Read Arrow rows, each a sample.

    Args:
        columns: What becomes of their columns.
    """

    columns: tuple[Wanted, ...]

    @property
    def features(self) -> list[Feature]:
        """What a sample holds."""
        return [column.feature for column in self.columns]

    def read(self, asked: SourceOptions, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, a few MB at a time.

        Raises:
            BadItem: The chunk cannot be read; or whatever `on_bad` raises.
        """
        pa = _arrow()
        part = part_of(unit)
        path = unit.files[0].path
        reading = Reading(path, asked.files, self.columns, on_bad)
        start = 0
        try:
            for batch in batches(asked.files, unit.files[0], [column.leaf for column in self.columns]):
                yield from chunks_of(reading, batch, range(start, start + len(batch)))
                start += len(batch)
        except (OSError, TableError, pa.ArrowException) as exc:
            raise BadItem(f"{shown(path)}:{start}", f"the rest of its rows cannot be read: {exc}") from exc
        if start != part.items:
            raise BadItem(shown(path), f"its index says {part.items} items, it has {start} rows")


def rows_of(asked: SourceOptions, found: Sequence[ItemFile], types: str) -> Rows:
    """Return what reads the rows of chunks.

    Raises:
        SourceError: None can be read, or their columns differ.
        ConfigError: A column is asked for that is not there.
    """
    facts = [(one.file, facts_of(asked.files, one.file, types)) for one in found if not one.fault and one.items]
    good = [(file, fact) for file, fact in facts if isinstance(fact, Facts)]
    if not good:
        raise SourceError(f"no chunk can be read; the first is {shown(facts[0][0].path)}: {facts[0][1]}")

    def first(leaf: Leaf) -> list[bytes]:
        filled = (file for file, fact in good if not fact.leaves[leaf.name].empty)
        return next((head for file in filled if (head := heads(asked.files, file, leaf))), [])

    return Rows(tuple(columns_of(good, asked, first)))
