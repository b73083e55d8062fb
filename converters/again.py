"""Offer the samples of a converted dataset as a source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from datafeed.converters.block_runs import block_runs
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Unit
from datafeed.dataset import Dataset
from datafeed.schema import Schema

UNIT_NBYTES = 16 * 10**6


@dataclass(frozen=True)
class Again:
    """Offer the samples of a dataset; a unit is a run of blocks of one shard.

    Args:
        path: The dataset, a path or URL.
        asked: How it is read; `storage_options` count here.
    """

    kind = "dataset"
    path: str
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the open dataset behind."""
        return {"path": self.path, "asked": self.asked}

    @cached_property
    def _dataset(self) -> Dataset:
        return Dataset(self.path, self.asked.storage_options or None)

    def schema(self) -> Schema:
        """Return the dataset's schema.

        Raises:
            DatasetNotFound: No committed dataset is there.
        """
        return self._dataset.schema

    def units(self) -> Sequence[Unit]:
        """List runs of blocks, about 16 MB each; their names hold the dataset's id."""
        index, name = self._dataset.index, self._dataset.manifest.dataset_id
        units = []
        start = nbytes = 0
        for block, size in enumerate(index.raw.tolist()):
            if block > start and (nbytes + size > UNIT_NBYTES or index.shard[block] != index.shard[start]):
                units.append(Unit(f"{name}#{start}", nbytes, (), (start, block)))
                start, nbytes = block, 0
            nbytes += size
        if nbytes:
            units.append(Unit(f"{name}#{start}", nbytes, (), (start, len(index.raw))))
        return units

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:  # noqa: ARG002  (damage is no bad item)
        """Read a run of blocks.

        Raises:
            CorruptData: It is damaged.
            ShardMissing: A shard is gone.
            SchemaError: A record does not fit the schema, or holds text that is no UTF-8.
        """
        assert isinstance(unit.detail, tuple)
        for run in block_runs(self._dataset, *unit.detail):
            yield Chunk(run.columns, run.rows, where=run.where)

    def options(self) -> dict[str, object]:
        """Return which dataset it is."""
        return {"dataset": self._dataset.manifest.dataset_id}

    def notes(self) -> Sequence[str]:
        """Say nothing."""
        return []
