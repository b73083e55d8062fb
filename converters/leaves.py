"""Flatten the fields of an Arrow schema to columns of values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from datafeed.converters import described
from datafeed.converters.arrow import form_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Leaf:
    """Name a column of values: a field of a table, or one within its structs.

    Args:
        name: Its path, joined by dots.
        path: The fields that lead to it.
        kind: Its Arrow type.
        of_file: Whether it is the `bytes` of a struct of `bytes` and `path`.
        shaped: Whether its lists have the sizes that `kind` says, though their own type does not say so.
        media: What files its bytes are, as Hugging Face's datasets says; None where it does not speak of files.
        classes: The names that its integers stand for, as datasets says.
    """

    name: str
    path: tuple[str, ...]
    kind: pa.DataType
    of_file: bool = False
    shaped: bool = False
    media: str | None = None
    classes: tuple[str, ...] = ()

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
    def form(self) -> object:
        """What a feature makes of it: writers choose by the data between types that are the same to a reader."""
        return form_of(self.kind)

    @property
    def short(self) -> str:
        """The name of the struct, where that stands for the file in it."""
        return self.name.removesuffix(".bytes") if self.of_file else self.name

    def is_wanted(self, columns: Sequence[str]) -> bool:
        """Whether it is among the features asked for, of which none stands for all."""
        return not columns or self.name in columns or self.short in columns


def twice(leaves: Sequence[Leaf]) -> str | None:
    """Return a name that two leaves share; None where there is none."""
    names = [leaf.name for leaf in leaves]
    return next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None


def leaves_of(schema: pa.Schema) -> Iterator[tuple[Leaf, bool]]:
    """Yield each leaf of a schema in order, and whether the schema allows nulls in it."""
    yield from _walk(schema, (), described.features_of(schema), nullable=False)


def _walk(
    fields: Sequence[pa.Field], path: tuple[str, ...], specs: object, *, nullable: bool
) -> Iterator[tuple[Leaf, bool]]:
    from pyarrow import types

    of_file = bool(path) and {field.name for field in fields} == {"bytes", "path"}
    for field in fields:
        way = (*path, field.name)
        loose = nullable or field.nullable
        spec = described.below(specs, field.name)
        if types.is_struct(field.type):
            yield from _walk(fields_of(field.type), way, spec, nullable=loose)
        else:
            yield _leaf(way, field.type, specs if of_file else spec, of_file=of_file and field.name == "bytes"), loose


def _leaf(path: tuple[str, ...], kind: pa.DataType, spec: object, *, of_file: bool) -> Leaf:
    shaped = described.array_kind(spec, kind)
    media = described.media_of(spec) if of_file or str(kind) in {"binary", "large_binary"} else None
    classes = described.classes_of(spec, kind)
    return Leaf(".".join(path), path, shaped or kind, of_file, bool(shaped), media, classes)


def fields_of(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields of a nested type."""
    return [kind.field(number) for number in range(kind.num_fields)]


def unlike(leaf: Leaf, other: Leaf) -> bool:
    """Whether two files' columns of one name cannot be one feature."""
    if leaf == other or leaf.empty or other.empty:
        return False
    return leaf.form != other.form or bool(leaf.classes and other.classes and leaf.classes != other.classes)


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
