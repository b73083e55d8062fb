"""Read the blocks of a converted dataset some MB at a time, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from datafeed._native import Block, Parser
from datafeed.batches import to_texts
from datafeed.columns import Column
from datafeed.dataset import Dataset, place_name
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Schema

RUN_NBYTES = 4 * 2**20

Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class BlockRun:
    """Hold consecutive blocks of one shard, verified.

    Args:
        dataset: The dataset.
        schema: The features that are wanted of it.
        first: The number of the first block in the dataset.
        blocks: The blocks.
    """

    dataset: Dataset
    schema: Schema
    first: int
    blocks: Sequence[Block]

    @cached_property
    def _which(self) -> Numbers:
        return np.repeat(np.arange(len(self.blocks), dtype=np.int32), [len(block) for block in self.blocks])

    @cached_property
    def _rows(self) -> Numbers:
        return np.concatenate([np.arange(len(block), dtype=np.int32) for block in self.blocks])

    @property
    def rows(self) -> int:
        """How many records they hold."""
        return len(self._which)

    @property
    def start(self) -> int:
        """The number of the first record in the dataset."""
        return int(self.dataset.index.first[self.first])

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The features that are wanted, by name.

        Raises:
            SchemaError: A record does not fit the schema, or holds text that is no UTF-8; with its place.
        """
        try:
            found = Parser(self.schema.features).parse(self.blocks, self._which, self._rows)
            for feature, column in zip(self.schema, found, strict=True):
                _check_text(feature, column)
        except SchemaError as exc:
            if exc.row < 0:
                raise
            raise self.refused(exc.row, exc.feature, exc.reason) from None
        return dict(zip([feature.name for feature in self.schema], found, strict=True))

    def where(self, row: int) -> str:
        """Return what a person calls the place of a record."""
        return place_name(self.dataset, self.first + int(self._which[row]), int(self._rows[row]))

    def refused(self, row: int, feature: str, reason: str) -> SchemaError:
        """Return the error for a record that cannot be taken, with its place."""
        return SchemaError(f"{self.where(row)}: {reason}", row, feature)


def _check_text(feature: Feature, column: Column) -> None:
    if feature.dtype == "utf8" and not column.values.tobytes().isascii():
        to_texts(feature, column)


def block_runs(dataset: Dataset, start: int, stop: int, schema: Schema | None = None) -> Iterator[BlockRun]:
    """Read blocks of one shard, about `RUN_NBYTES` raw at a time.

    Args:
        dataset: The dataset.
        start: The first block.
        stop: The block behind the last.
        schema: The features that are wanted; None for all.

    Yields:
        The runs, in order.

    Raises:
        CorruptData: A block is damaged.
        ShardMissing: The shard is gone.
    """
    raw = dataset.index.raw
    while start < stop:
        end = start + 1
        nbytes = int(raw[start])
        while end < stop and nbytes < RUN_NBYTES:
            nbytes += int(raw[end])
            end += 1
        yield BlockRun(dataset, schema or dataset.schema, start, dataset.reader.read_run(start, end))
        start = end
