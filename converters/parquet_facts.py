"""Learn from a parquet file's footer what the file holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from datafeed.converters.files import Files
from datafeed.errors import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData

_TAIL_NBYTES = 2**16  # that Arrow reads of a file's end at first
_ENTRY_NBYTES = 12  # what a record holds around a feature's name and value


@dataclass(frozen=True, slots=True)
class Leaf:
    """Name a column of values: a field of the file, or one within its structs.

    Args:
        name: Its path, joined by dots.
        path: The fields that lead to it.
        kind: Its Arrow type.
        of_image: Whether it is the `bytes` of a struct of `bytes` and `path`.
    """

    name: str
    path: tuple[str, ...]
    kind: pa.DataType
    of_image: bool

    @property
    def empty(self) -> bool:
        """Whether its type says that it holds nothing but nulls."""
        return str(self.kind) == "null"

    @property
    def width(self) -> int:
        """The bytes of a value; 0 where values differ in size."""
        from pyarrow import types

        return self.kind.bit_width // 8 if types.is_primitive(self.kind) else 0

    @property
    def plain_kind(self) -> str:
        """Its type, a dictionary's being that of its values: writers choose it by the data."""
        from pyarrow import types

        return str(self.kind.value_type if types.is_dictionary(self.kind) else self.kind)


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


def facts_of(files: Files, path: str) -> Facts | str:
    """Read a file's footer.

    Args:
        files: What reaches it.
        path: The file.

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
        facts = _facts(footer, footer.schema.to_arrow_schema())
    except (OSError, pa.ArrowException) as exc:
        return f"no parquet file that can be read: {exc}"
    return facts


def _facts(footer: FileMetaData, schema: pa.Schema) -> Facts | str:
    found = list(_walk(schema, (), nullable=False, start=0))
    names = [leaf.name for leaf, _, _ in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        return f"two of its columns share the name {twice[0]!r}" if twice else "it has no column"
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    nulls = {
        leaf.name
        for leaf, nullable, columns in found
        if leaf.empty or (nullable and any(_has_nulls(group, columns) for group in groups))
    }
    rows = tuple(group.num_rows for group in groups)
    nbytes = tuple(_nbytes(group, found) for group in groups)
    return Facts({leaf.name: leaf for leaf, _, _ in found}, frozenset(nulls), rows, nbytes)


def _nbytes(group: pa.Array, found: Sequence[tuple[Leaf, bool, range]]) -> int:
    """Estimate a row group's raw bytes; its own figures count a value of a dictionary once."""
    nbytes = 0
    for leaf, _, columns in found:
        encoded = sum(group.column(column).total_uncompressed_size for column in columns)
        each = len(leaf.name) + _ENTRY_NBYTES
        nbytes += max(encoded, group.num_rows * leaf.width) + group.num_rows * each
    return nbytes


def _walk(
    fields: Sequence[pa.Field], path: tuple[str, ...], *, nullable: bool, start: int
) -> Iterator[tuple[Leaf, bool, range]]:
    """Yield each leaf, whether the schema allows nulls in it, and which of the file's columns hold it."""
    from pyarrow import types

    of_image = bool(path) and {field.name for field in fields} == {"bytes", "path"}
    for field in fields:
        way = (*path, field.name)
        end = start + _width(field.type)
        if types.is_struct(field.type):
            yield from _walk(_fields(field.type), way, nullable=nullable or field.nullable, start=start)
        else:
            leaf = Leaf(".".join(way), way, field.type, of_image and field.name == "bytes")
            yield leaf, nullable or field.nullable, range(start, end)
        start = end


def _fields(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(number) for number in range(kind.num_fields)]


def _width(kind: pa.DataType) -> int:
    """Return how many of the file's columns hold a type."""
    from pyarrow import types

    inner = _fields(kind) if types.is_nested(kind) else []
    return sum(_width(field.type) for field in inner) if inner else 1


def _has_nulls(group: pa.Array, columns: range) -> bool:
    for column in columns:
        statistics = group.column(column).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return True
    return False


def dig(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """Return the values of a leaf: null where any field on the way to it is.

    Args:
        batch: Rows of the file.
        path: The fields that lead to it.
    """
    from pyarrow import compute

    array = batch.column(path[0])
    for name in path[1:]:
        array = compute.struct_field(array, [name])
    return array
