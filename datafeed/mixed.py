"""Be to a Loader what a dataset is, from several that are mixed."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from datafeed.batches import Plain
from datafeed.cache.config import Cache
from datafeed.cache.due import Due, Run
from datafeed.cache.stats import TierStats
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError, SchemaError
from datafeed.mix import Mix, samples_of_each
from datafeed.mixorder import MixLayout, MixNatural, mix_layout
from datafeed.mixread import MixedReading, summed
from datafeed.order import Counts, Layout, Mode, Rows
from datafeed.schema import Feature, Schema
from datafeed.splitmix import Numbers

S = TypeVar("S", bound=Due)

_MOST_BLOCKS = 2**31 - 1


class MixedDataset:
    """Be to a Loader what a dataset is: the samples of one epoch of a mix.

    Args:
        mix: The datasets, and how much of each.
        storage_options: What fsspec takes for those that are given by URL.
        cache: The tiers that they are read through; memory is shared out by their sizes.

    Raises:
        ConfigError: A dataset is empty, or an epoch would hold no sample of it; or memory is to keep records of
            different features.
        DatasetNotFound: No converted dataset is there.
    """

    def __init__(
        self, mix: Mix, storage_options: Mapping[str, object] | None = None, cache: Cache | None = None
    ) -> None:
        named = [dataset for dataset in mix.datasets if not isinstance(dataset, Dataset)]
        for name, value in (("storage_options", storage_options), ("cache", cache)):
            if value is not None and not named:
                raise ConfigError(f"{name}= belongs to the datasets of this mix, which are open already")
        self.mix = mix
        self._given = storage_options, cache
        self.datasets = [
            dataset if isinstance(dataset, Dataset) else Dataset(dataset, storage_options) for dataset in mix.datasets
        ]
        if cache is not None:
            opened = zip(self.datasets, mix.datasets, strict=True)
            _cache([dataset for dataset, given in opened if dataset is not given], cache)
        _check_host(self.datasets)
        self.counts = samples_of_each(mix, self.datasets)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.mix, *self._given)

    def __len__(self) -> int:
        return sum(self.counts)

    def __repr__(self) -> str:
        named = ", ".join(
            f"{count:,} of {dataset!r}" for count, dataset in zip(self.counts, self.datasets, strict=True)
        )
        return f"MixedDataset({len(self):,} samples an epoch: {named})"

    def __getitem__(self, number: int) -> dict[str, Plain]:
        """Return a sample of the first epoch in the order as written.

        Raises:
            IndexError: The number is out of range.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"sample {number} of a mix of {len(self)}")
        owner, _, record = MixNatural(self.layout, 0).records(np.array([number]))
        return self.datasets[int(owner[0])][int(record[0])]

    @property
    def schema(self) -> Schema:
        """What the samples of the first dataset hold."""
        return self.datasets[0].schema

    def select(self, columns: Sequence[str] | None) -> Schema:
        """Return the schema of what is read.

        Args:
            columns: The features to read; None for all.

        Raises:
            SchemaError: The datasets do not agree in it, or one lacks a feature.
        """
        first = self.datasets[0].select(columns)
        for dataset in self.datasets[1:]:
            _compare(self.datasets[0], first, dataset, columns)
        return first

    @property
    def record_nbytes(self) -> int:
        """The raw bytes of a sample, on average, at least 1."""
        return max(1, self._mean([dataset.record_nbytes for dataset in self.datasets]))

    @property
    def block_nbytes(self) -> int:
        """The raw bytes of a block, on average, at least 1."""
        return max(1, self._mean([dataset.block_nbytes for dataset in self.datasets]))

    @cached_property
    def held_nbytes(self) -> int:
        """The raw bytes of the blocks that hold an epoch's samples, each pass of a dataset counted."""
        shares = zip(self.counts, self.datasets, strict=True)
        return sum(count * dataset.held_nbytes // len(dataset) for count, dataset in shares)

    @property
    def extent_size(self) -> list[int]:
        """The nominal extents, in stored bytes."""
        return [dataset.extent_size for dataset in self.datasets]

    @property
    def digest(self) -> str:
        """What names the datasets, their shares, and how they are mixed."""
        parts = [
            f"{count} ({weight}) of {dataset.digest}"
            for count, weight, dataset in zip(self.counts, self.mix.weights, self.datasets, strict=True)
        ]
        runs = "" if self.mix.run == 1 else f" in runs of {self.mix.run}"
        return f"mix with seed {self.mix.seed} of {', '.join(parts)}{runs}"

    @property
    def read_from(self) -> Sequence[Dataset]:
        """The datasets whose blocks are read."""
        return self.datasets

    @staticmethod
    def laned(mode: Mode) -> bool:
        """Tell whether an order is drawn from lanes."""
        return mode != "natural"

    @cached_property
    def _compacted(self) -> list[tuple[Layout, Numbers | None]]:
        return [_compact(dataset.layout) for dataset in self.datasets]

    @cached_property
    def layout(self) -> MixLayout:
        """Where every sample lies.

        Raises:
            ConfigError: An epoch passes over too many blocks.
        """
        layouts = [layout for layout, _ in self._compacted]
        shares = zip(self.counts, layouts, strict=True)
        blocks = sum((count // layout.records + 2) * len(layout.first) for count, layout in shares)
        if blocks > _MOST_BLOCKS:
            raise ConfigError(f"an epoch of {len(self):,} samples of this mix is too long: give stop= a smaller number")
        return mix_layout(layouts, self.counts, self.mix.weights, self.mix.seed, self.mix.run)

    def locate(self, block: int) -> tuple[Dataset, int]:
        """Return the dataset of a block, and the block's number in it."""
        number, start = self._local(block)
        used = self._compacted[number][1]
        return self.datasets[number], start if used is None else int(used[start])

    def numbers(self, blocks: npt.NDArray[np.int32], rows: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        """Return numbers that tell records, and the passes of an epoch over them, apart."""
        bases = np.array([part.base for part in self.layout.parts])
        owner = np.searchsorted(bases, blocks, side="right") - 1
        out = np.empty(len(blocks), np.uint64)
        begin = 0
        for number, (part, dataset) in enumerate(zip(self.layout.parts, self.datasets, strict=True)):
            at = np.flatnonzero(owner == number)
            turn, local = np.divmod(blocks[at].astype(np.int64) - part.base, part.blocks)
            used = self._compacted[number][1]
            first = dataset.index.first[local if used is None else used[local]]
            out[at] = begin + turn * dataset.manifest.records + first + rows[at]
            begin += part.passes * dataset.manifest.records
        return out

    def reading(self, steps: Iterator[S], mode: Mode, epoch: int, left: Callable[[], Counts] | None) -> MixedReading[S]:
        """Return what reads an epoch.

        Args:
            steps: Its schedule.
            mode: Its order.
            epoch: Which one.
            left: Returns, by block, the samples that it will read; None where it returns to blocks.
        """
        reading = MixedReading(steps, [dataset.reader.read_runs for dataset in self.datasets], self.divide)
        for number, dataset in enumerate(self.datasets):
            if dataset.tiered is not None and (mode != "full" or dataset.cache is not None):
                reading.read_ahead(number, dataset.tiered, self._left(number, epoch, left))
        return reading

    def figures(self) -> Callable[[], tuple[TierStats, ...]]:
        """Return what tells, whenever it is called, what was done with each tier from now on."""
        return partial(summed, [dataset.tiered.figures() for dataset in self.datasets if dataset.tiered is not None])

    def divide(self, runs: Sequence[Run]) -> list[tuple[int, list[Run]]]:
        """Return of each run of blocks its dataset, and the runs that it is there."""
        out = []
        for start, stop in runs:
            number, local = self._local(start)
            used = self._compacted[number][1]
            end = local + stop - start
            out.append((number, [(local, end)] if used is None else _consecutive(used[local:end])))
        return out

    def _local(self, block: int) -> tuple[int, int]:
        number = bisect.bisect_right(self.layout.parts, block, key=lambda part: part.base) - 1
        part = self.layout.parts[number]
        return number, (block - part.base) % part.blocks

    def _left(self, number: int, epoch: int, left: Callable[[], Counts] | None) -> Counts | None:
        """Return what an epoch will read of each block of a dataset; None where it passes over it again."""
        part, used = self.layout.parts[number], self._compacted[number][1]
        turns = part.within(epoch)
        if left is None or len(turns) > 1:
            return None
        first = part.first_block(turns[0])
        own = left()[first : first + part.blocks]
        if used is None:
            return own
        found = np.zeros(len(self.datasets[number].index), np.int32)
        found[used] = own
        return found

    def _mean(self, nbytes: Sequence[int]) -> int:
        return sum(count * size for count, size in zip(self.counts, nbytes, strict=True)) // len(self)


def _cache(datasets: Sequence[Dataset], cache: Cache) -> None:
    """Give datasets a cache; memory is of each alone, so they get as much as they are large."""
    total = max(1, sum(dataset.manifest.raw_bytes for dataset in datasets))
    for dataset in datasets:
        host = cache.host_nbytes() * dataset.manifest.raw_bytes // total
        dataset.cache = cache if cache.host is None else replace(cache, host=host)


def _check_host(datasets: Sequence[Dataset]) -> None:
    """Refuse to keep in memory what batches cannot be gathered from: records packed by different schemas."""
    if not any(one.cache is not None and one.cache.host is not None for one in datasets):
        return
    first = datasets[0]
    for other in datasets[1:]:
        if other.manifest.schema != first.manifest.schema:
            raise ConfigError(
                f"host= keeps records packed by one schema, and {other.url!r} holds other features than {first.url!r}: "
                "leave host= out, or convert them alike"
            )


def _compare(first: Dataset, expected: Schema, other: Dataset, columns: Sequence[str] | None) -> None:
    """Check that a dataset has the features of another.

    Raises:
        SchemaError: It does not; each difference is named.
    """
    found = other.select(columns)
    differ = [
        f"{feature.name!r} is {'not there' if feature.name not in found else _difference(feature, found[feature.name])}"
        for feature in expected
        if feature.name not in found or _kind(found[feature.name]) != _kind(feature)
    ] + [f"{feature.name!r} is there alone" for feature in found if feature.name not in expected]
    if differ:
        raise SchemaError(
            f"{other.url!r} holds other features than {first.url!r}: {'; '.join(differ)}. Name those that they "
            "share by columns=[...]"
        )


def _difference(expected: Feature, found: Feature) -> str:
    """Return how a feature differs from the one that was expected."""
    return " and ".join(
        f"of {field.name} {getattr(found, field.name)!r}, not {getattr(expected, field.name)!r}"
        for field in fields(Feature)
        if getattr(found, field.name) != getattr(expected, field.name)
    )


def _kind(feature: Feature) -> Feature:
    """Return what must agree: any kind of image is decoded."""
    return replace(feature, media="image/*") if feature.is_image else feature


def _compact(layout: Layout) -> tuple[Layout, Numbers | None]:
    """Leave blocks without records out of a layout, so that its passes have few; return the numbers of the others."""
    sizes = np.diff(layout.first)
    if sizes.all():
        return layout, None
    used = np.flatnonzero(sizes)
    first = np.append(layout.first[used], layout.first[-1])
    rows = None if layout.chosen is None else partial(_chosen, layout.chosen, used)
    return Layout(first, np.searchsorted(used, layout.extents), rows, layout.turn), used


def _chosen(chosen: Rows, used: Numbers, blocks: Numbers, rows: Numbers) -> Numbers:
    return chosen(used[blocks], rows)


def _consecutive(blocks: Numbers) -> list[Run]:
    """Return blocks, ascending, as runs without holes."""
    breaks = np.flatnonzero(np.diff(blocks) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(blocks, breaks)]
