"""Learn from a parquet file's footer what the file holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from datafeed.converters.files import Files
from datafeed.converters.leaves import Leaf, fields_of, leaves_of, twice
from datafeed.errors import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData

_TAIL_NBYTES = 2**16  # that Arrow reads of a file's end at first
_ENTRY_NBYTES = 12  # what a record holds around a feature's name and value


@dataclass(frozen=True, slots=True)
class Facts:
    """Hold what a footer says.

    Args:
        leaves: The columns by name, in the file's order.
        nulls: The names of those that may hold nulls.
        rows: The rows of each row group.
        nbytes: The raw bytes of each, as records, estimated.
    """

    leaves: dict[str, Leaf]
    nulls: frozenset[str]
    rows: tuple[int, ...]
    nbytes: tuple[int, ...]

    def may_lack(self, name: str) -> bool:
        """Whether the column may hold nulls."""
        return name in self.nulls


def facts_of(files: Files, path: str, columns: Sequence[str]) -> Facts | str:
    """Read a file's footer.

    Args:
        files: What reaches it.
        path: The file.
        columns: The features wanted; none for all.

    Returns:
        What it says; or why it cannot be read.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as exc:
        raise MissingExtra("pyarrow", "parquet", "to read parquet") from exc
    try:
        with files.open(path, read_ahead=_TAIL_NBYTES) as file:
            footer = parquet.read_metadata(file)
        facts = _facts(footer, footer.schema.to_arrow_schema(), columns)
    except (OSError, UnicodeError, pa.ArrowException) as exc:
        return f"no parquet file that can be read: {exc}"
    return facts


def _facts(footer: FileMetaData, schema: pa.Schema, columns: Sequence[str]) -> Facts | str:
    found = list(_with_places(schema))
    wanted = [leaf for leaf in found if leaf[0].is_wanted(columns)]
    name = twice([leaf for leaf, _, _ in wanted])
    if name is not None or not found:
        return f"two of its columns share the name {name!r}" if found else "it has no column"
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    nulls = {
        leaf.name
        for leaf, nullable, places in wanted
        if leaf.empty or (nullable and any(_has_nulls(group, places) for group in groups))
    }
    rows = tuple(group.num_rows for group in groups)
    nbytes = tuple(_nbytes(group, wanted) for group in groups)
    return Facts({leaf.name: leaf for leaf, _, _ in found}, frozenset(nulls), rows, nbytes)


def _with_places(schema: pa.Schema) -> Iterator[tuple[Leaf, bool, range]]:
    """Yield each leaf, whether the schema allows nulls in it, and which of the file's columns hold it."""
    start = 0
    for leaf, nullable in leaves_of(schema):
        end = start + _width(leaf.kind)
        yield leaf, nullable, range(start, end)
        start = end


def _nbytes(group: pa.Array, found: Sequence[tuple[Leaf, bool, range]]) -> int:
    """Estimate a row group's raw bytes; its own figures count a value of a dictionary once."""
    nbytes = 0
    for leaf, _, columns in found:
        encoded = sum(group.column(column).total_uncompressed_size for column in columns)
        each = len(leaf.name) + _ENTRY_NBYTES
        nbytes += max(encoded, group.num_rows * leaf.width) + group.num_rows * each
    return nbytes


def _width(kind: pa.DataType) -> int:
    """Return how many of the file's columns hold a type."""
    from pyarrow import types

    inner = fields_of(kind) if types.is_nested(kind) else []
    return sum(_width(field.type) for field in inner) if inner else 1


def _has_nulls(group: pa.Array, columns: range) -> bool:
    for column in columns:
        statistics = group.column(column).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return True
    return False
