"""Learn from an Arrow IPC file's messages what the file holds, and cut it into runs of record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from datafeed.converters.arrow_layout import Batch, Layout, Span, layout_of, prefix_of
from datafeed.converters.files import Files
from datafeed.converters.leaves import Leaf, fields_of, leaves_of, twice
from datafeed.converters.source import Stamp
from datafeed.errors import MissingExtra
from datafeed.storage import local_path

if TYPE_CHECKING:
    import pyarrow as pa

UNIT_NBYTES = 8 * 2**20
_HEADER_NBYTES = 2**16  # asked of a remote file at a time: headers stand apart
_UNPACKED = 3  # about how many times as large compressed batches become
_ENTRY_NBYTES = 12  # what a record holds around a feature's name and value
_MANY_DICTIONARIES = 64  # which a unit in the middle would have to read first


class Run(NamedTuple):
    """Name consecutive record batches, or rows of one.

    Attributes:
        spans: Of a stream, what to read: the schema, the dictionaries, the batches; of a file with a footer, nothing.
        batches: The numbers of its batches: the first, and the one after the last.
        skip: Rows of the first batch that do not count.
        rows: How many rows then do.
        start: The number of the first of them in the file.
        nbytes: Their size as raw records, estimated.
        packed: Whether the batches are compressed.
    """

    spans: tuple[Span, ...]
    batches: tuple[int, int]
    skip: int
    rows: int
    start: int
    nbytes: int
    packed: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Hold what a file's messages say.

    Args:
        leaves: The columns by name, in the file's order.
        nulls: The names of those that hold nulls.
        runs: What it is read by.
        broken: Why nothing can be read after the last run; empty where the file is whole.
        layout: Where its record batches lie, where rows can be read by number: in a local file that is not compressed.
        places: In how many buffers a row then lies.
    """

    leaves: dict[str, Leaf]
    nulls: frozenset[str]
    runs: tuple[Run, ...]
    broken: str
    layout: Layout | None
    places: int

    def may_lack(self, name: str) -> bool:
        """Whether the column holds nulls."""
        return name in self.nulls


def facts_of(files: Files, stamp: Stamp, columns: Sequence[str]) -> Facts | str:
    """Read the headers of a file's messages.

    Args:
        files: What reaches it.
        stamp: The file.
        columns: The features wanted; none for all.

    Returns:
        What they say; or why the file cannot be read.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as exc:
        raise MissingExtra("pyarrow", "parquet", "to read Arrow files") from exc
    try:
        with files.open(stamp.path, read_ahead=_HEADER_NBYTES) as file:
            layout = layout_of(file, stamp.nbytes)
            schema = _schema(file, layout)
        return _facts(stamp, layout, schema, columns)
    except (OSError, ValueError, pa.ArrowException) as exc:
        return f"no Arrow file that can be read: {exc}"


def _schema(file: BinaryIO, layout: Layout) -> pa.Schema:
    from pyarrow import ipc, py_buffer

    if not layout.stream:
        return ipc.open_file(file).schema
    start, end = layout.schema
    file.seek(start)
    return ipc.read_schema(py_buffer(file.read(end - start)))


def _facts(stamp: Stamp, layout: Layout, schema: pa.Schema, columns: Sequence[str]) -> Facts | str:
    places = list(_places(schema, (), count()))
    found = list(leaves_of(schema))
    wanted = [leaf for leaf, _ in found if leaf.is_wanted(columns)]
    name = twice(wanted)
    if name is not None or not found:
        return f"two of its columns share the name {name!r}" if found else "it has no column"
    if layout.batches and len(layout.nulls) != sum(_nodes(field.type) for field in schema):
        return "its record batches have other columns than its schema says"
    nulls = {
        leaf.name
        for (leaf, _), nodes in zip(found, places, strict=True)
        if leaf.empty or (layout.batches and (layout.null_words or layout.nulls[list(nodes)].any()))
    }
    cuts = local_path(stamp.path) is not None and not layout.packed
    runs = tuple(_run(layout, wanted, cut) for cut in _cut(layout.batches, rows_too=cuts))
    if runs and layout.stream and len(layout.dictionaries) > _MANY_DICTIONARIES:
        runs = (_run(layout, wanted, (layout.batches, 0, sum(run.rows for run in runs), 0)),)
    takes = not any("view" in str(kind) for kind in schema.types)  # Arrow takes no rows of views
    addressed = layout if cuts and takes and len(layout.dictionaries) <= _MANY_DICTIONARIES else None
    columns_by_name = {leaf.name: leaf for leaf, _ in found}
    return Facts(columns_by_name, frozenset(nulls), runs, layout.broken, addressed, _buffers(wanted))


def _buffers(leaves: Sequence[Leaf]) -> int:
    """Return in how many buffers a row lies: those of fixed width in one a column, others in two or more."""
    return sum(1 if leaf.width else 2 for leaf in leaves)


def _places(fields: Sequence[pa.Field], above: tuple[int, ...], counter: Iterator[int]) -> Iterator[tuple[int, ...]]:
    """Yield for each leaf its number among the nodes of a batch, with those of the structs that it is in."""
    from pyarrow import types

    for field in fields:
        way = (*above, next(counter))
        if types.is_struct(field.type):
            yield from _places(fields_of(field.type), way, counter)
        else:
            for _ in range(_nodes(field.type) - 1):
                next(counter)
            yield way


def _nodes(kind: pa.DataType) -> int:
    """Return how many nodes of a batch hold a type; a dictionary's values are not among them."""
    import pyarrow as pa
    from pyarrow import types

    if isinstance(kind, pa.BaseExtensionType):
        return _nodes(kind.storage_type)
    return 1 + sum(_nodes(field.type) for field in (fields_of(kind) if types.is_nested(kind) else ()))


_Cut = tuple[Sequence[Batch], int, int, int]
"""Batches; the rows of the first to skip; the rows to read; the number of the first of them in the file."""


def _cut(batches: Sequence[Batch], *, rows_too: bool) -> Iterator[_Cut]:
    """Cut batches into runs of about `UNIT_NBYTES`; larger ones, where asked, into rows."""
    start = rows = nbytes = 0
    run: list[Batch] = []
    for batch in batches:
        size = batch.span[1] - batch.span[0]
        if run and nbytes + size > UNIT_NBYTES:
            yield run, 0, rows, start
            start, rows, nbytes, run = start + rows, 0, 0, []
        if rows_too and size >= 2 * UNIT_NBYTES and batch.rows > 1:
            step = max(UNIT_NBYTES * batch.rows // size, 1)
            for first in range(0, batch.rows, step):
                yield [batch], first, min(step, batch.rows - first), start + first
            start += batch.rows
        elif batch.rows:
            run.append(batch)
            rows, nbytes = rows + batch.rows, nbytes + size
    if run:
        yield run, 0, rows, start


def _run(layout: Layout, wanted: Sequence[Leaf], cut: _Cut) -> Run:
    batches, skip, rows, start = cut
    first, last = batches[0], batches[-1]
    spans = (*prefix_of(layout, first), (first.span[0], last.span[1])) if layout.stream else ()
    entries = rows * sum(len(leaf.name) + _ENTRY_NBYTES for leaf in wanted)
    if all(leaf.width for leaf in wanted):
        nbytes = rows * sum(leaf.width for leaf in wanted)
    else:
        held = sum(batch.span[1] - batch.span[0] for batch in batches) * (_UNPACKED if layout.packed else 1)
        nbytes = held * rows // sum(batch.rows for batch in batches)
    return Run(spans, (first.number, last.number + 1), skip, rows, start, nbytes + entries, layout.packed)
