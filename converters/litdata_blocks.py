"""Cut the token ids of LitData chunks to blocks of one length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from datafeed.columns import Column
from datafeed.converters.item_fields import numbers
from datafeed.converters.item_table import PIECE_NBYTES, Table, TableError
from datafeed.converters.item_units import ItemFile, part_of, units_of
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Unit
from datafeed.converters.unpack import PACKED_ERRORS
from datafeed.converters.whole_file import opened
from datafeed.errors import BadItem
from datafeed.schema import Feature


@dataclass(frozen=True, slots=True)
class Blocks:
    """Read blocks of token ids, each a sample; the ids that fill none at the end of a chunk are left out.

    Args:
        feature: The ids of a block.
    """

    feature: Feature

    @property
    def features(self) -> list[Feature]:
        """What a sample holds."""
        return [self.feature]

    @property
    def _nbytes(self) -> int:
        return self.feature.numpy_dtype.itemsize * self.feature.row_items

    def units(self, found: ItemFile, ids: int) -> Iterator[Unit]:
        """Yield the units of a chunk, in blocks; they are read behind the chunk's table of items."""
        table = Table.nbytes_of(found.items)
        expected = table + ids * self.feature.numpy_dtype.itemsize
        fault = found.fault
        if not fault and expected != found.facts.nbytes:
            fault = f"its index says {found.facts.nbytes} bytes, {ids} token ids of {found.items} items need {expected}"
        for unit in units_of(replace(found, items=ids // self.feature.row_items, fault=fault)):
            detail = unit.detail
            yield replace(unit, detail=detail if isinstance(detail, str) else (*part_of(unit), found.items))

    def read(self, asked: SourceOptions, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:  # noqa: ARG002  (any id is good)
        """Read one unit, a few MB at a time.

        Raises:
            BadItem: The chunk cannot be read.
        """
        if isinstance(unit.detail, str):
            raise BadItem(unit.name, unit.detail)
        assert isinstance(unit.detail, tuple)
        start, end, _, facts, items = unit.detail
        path = shown(unit.files[0].path)
        step = max(PIECE_NBYTES // self._nbytes, 1)
        try:
            with opened(asked.files, unit.files[0], facts) as file:
                Table(file, facts.nbytes, items).check()
                for first in range(start, end, step):
                    rows = min(step, end - first)
                    file.seek(Table.nbytes_of(items) + first * self._nbytes)
                    data = np.frombuffer(file.read(rows * self._nbytes), np.uint8)
                    if len(data) < rows * self._nbytes:
                        raise TableError("it is cut short")  # noqa: TRY301
                    ids = numbers(data, self.feature).reshape(rows, *self.feature.row_shape)
                    yield Chunk({self.feature.name: Column(ids)}, rows, where=_place(path, first))
        except (TableError, *PACKED_ERRORS) as exc:
            raise BadItem(path, f"blocks {start} to {end} cannot be read: {exc}") from exc


def _place(path: str, first: int) -> Callable[[int], str]:
    return lambda row: f"{path}: block {first + row}"
