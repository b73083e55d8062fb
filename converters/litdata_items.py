"""Make samples of the items of LitData chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from datafeed.converters.item_chunks import chunk_of
from datafeed.converters.item_fields import Faults, Field, Values, listed, split, values_of
from datafeed.converters.item_table import Piece, TableError
from datafeed.converters.item_units import first_rows, part_of
from datafeed.converters.litdata_fields import field_of
from datafeed.converters.litdata_index import Config
from datafeed.converters.litdata_packed import pieces
from datafeed.converters.names import FirstBad, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Unit
from datafeed.converters.unpack import PACKED_ERRORS
from datafeed.converters.whole_file import opened
from datafeed.errors import BadItem, SourceError
from datafeed.schema import Feature


@dataclass(frozen=True, slots=True)
class Items:
    """Read items, each a sample.

    Args:
        config: What the chunks hold.
        fields: What reads each leaf.
    """

    config: Config
    fields: tuple[Field, ...]

    @property
    def features(self) -> list[Feature]:
        """What a sample holds."""
        return [field.feature for field in self.fields]

    def read(self, asked: SourceOptions, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, a few MB at a time.

        Raises:
            BadItem: The chunk cannot be read; or whatever `on_bad` raises.
        """
        part = part_of(unit)
        path = shown(unit.files[0].path)

        def where(item: int) -> str:
            return f"{path}: item {item}"

        def on_wrong(item: int, reason: str) -> None:
            on_bad(BadItem(where(item), reason))

        try:
            with opened(asked.files, unit.files[0], part.facts) as file:
                for piece in pieces(file, part, self.config.level, on_wrong):
                    made = chunk_of(self.fields, split_items(self.config, piece), piece, where, on_bad)
                    if made is not None:
                        yield made
        except (TableError, *PACKED_ERRORS) as exc:
            raise BadItem(path, f"items {part.start} to {part.end} cannot be read: {exc}") from exc


def items_of(config: Config, asked: SourceOptions, units: Sequence[Unit]) -> Items:
    """Return what reads items, of which the first tell shapes and images.

    Raises:
        SourceError: None can be read.
        SchemaError: Arrays have shapes that no feature holds, or two leaves share a name.
    """
    bad = FirstBad()
    first = first_rows(
        asked,
        units,
        lambda file, part, on_wrong: pieces(file, part, config.level, on_wrong),
        lambda piece: split_items(config, piece),
        bad,
    )
    if not first:
        raise SourceError(f"no item can be read{bad.ending}")
    columns = zip(config.columns, zip(*first, strict=True), strict=True)
    fields = [field_of(name, form, values_of(values)) for (name, form), values in columns]
    return Items(config, tuple(map(listed, fields) if asked.int64_lists else fields))


def split_items(config: Config, piece: Piece) -> tuple[list[Values], Faults]:
    """Return the leaves of items; those of token ids are all of an item."""
    if config.tokens:
        return [Values(piece.data, piece.offsets[:-1], np.diff(piece.offsets))], {}
    return split(piece.data, piece.offsets, [None] * len(config.columns))
