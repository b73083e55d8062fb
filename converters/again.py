"""Offer the samples of a converted dataset as a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from datafeed._native import Parser
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Unit
from datafeed.dataset import Dataset, place_name
from datafeed.schema import Schema

Numbers = npt.NDArray[np.int32]
UNIT_NBYTES = 16 * 10**6
_CHUNK_NBYTES = 4 * 2**20


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
        """
        assert isinstance(unit.detail, tuple)
        dataset = self._dataset
        parser = Parser(dataset.schema.features)
        start, stop = unit.detail
        while start < stop:
            end = start + 1
            nbytes = int(dataset.index.raw[start])
            while end < stop and nbytes < _CHUNK_NBYTES:
                nbytes += int(dataset.index.raw[end])
                end += 1
            blocks = dataset.reader.read_run(start, end)
            sizes = [len(block) for block in blocks]
            which = np.repeat(np.arange(len(blocks), dtype=np.int32), sizes)
            rows = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])
            columns = parser.parse(blocks, which, rows)
            names = [feature.name for feature in dataset.schema]
            yield Chunk(dict(zip(names, columns, strict=True)), len(rows), where=_places(dataset, start, which, rows))
            start = end

    def options(self) -> dict[str, object]:
        """Return which dataset it is."""
        return {"dataset": self._dataset.manifest.dataset_id}

    def notes(self) -> Sequence[str]:
        """Say nothing."""
        return []


def _places(dataset: Dataset, start: int, which: Numbers, rows: Numbers) -> Callable[[int], str]:
    return lambda row: place_name(dataset, start + int(which[row]), int(rows[row]))
