"""Hand out the batches of one epoch."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from datafeed._native import Block
from datafeed.cache.reader import Ahead
from datafeed.cache.stats import TierStats
from datafeed.cache.vram import DeviceEpoch, DeviceTier
from datafeed.dataset import Dataset
from datafeed.errors import LoaderClosed
from datafeed.making import Batch, Maker
from datafeed.mixed import MixedDataset
from datafeed.mixread import MixedReading
from datafeed.options import MASK, FeedOptions
from datafeed.order import FullOrder, Spec
from datafeed.pipeline import Engine, close_with
from datafeed.ragged import Ragged
from datafeed.schedule import Blocks, Find, Span, Step, once, within
from datafeed.share import Cut, RankOrder, Repeated, rank_order
from datafeed.state import Position
from datafeed.stats import LoaderStats, Meter
from datafeed.work import Counters, Limits

_AHEAD_SAMPLES = 1024  # whose blocks load beyond the prefetched batches: a window's start then needs no pause
# Small batches are made several at a time: then the cost of a task, of a hand-over between threads and of a call of the
# parser is shared. So many raw bytes still lie in a core's cache when they are handed out.
_TOGETHER_NBYTES = 2**22
_MOST_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """Say which batches of which epoch an iterator hands out.

    Args:
        epoch: The epoch.
        spec: The order.
        cut: The batches of this rank.
        own: How many of its samples are no repeats.
    """

    epoch: int
    spec: Spec
    cut: Cut
    own: int

    def position(self, batches: int) -> Position:
        """Return where an iterator stands after so many of its batches."""
        record = self.cut.position(batches)
        return Position(self.epoch, record) if record < self.cut.end else Position(self.epoch + 1, 0)


@dataclass(slots=True)
class Progress:
    """Hold how far an iterator is, apart from it: whoever asks does not keep the iterator and its threads alive."""

    plan: Plan
    meter: Meter
    counters: Counters
    tiers: Callable[[], tuple[TierStats, ...]] = tuple
    handed: int = 0
    ended: bool = False

    @property
    def position(self) -> Position:
        """Where the iterator stands, after the batches that it handed out."""
        return Position(self.plan.epoch + 1, 0) if self.ended else self.plan.position(self.handed)

    def stats(self) -> LoaderStats:
        """Return what was handed out so far, and what it took."""
        return self.meter.stats(self.counters, self.tiers())


class EpochIterator(Iterator[Batch]):
    """Hand out the batches that a plan names.

    Args:
        dataset: The dataset.
        options: How it is fed.
        maker: What makes its batches.
        plan: Which ones.
        first: Called before the first batch is handed out, while it is made.
        tier: What keeps samples on the device; None for nothing.
    """

    def __init__(
        self,
        dataset: Dataset | MixedDataset,
        options: FeedOptions,
        maker: Maker,
        plan: Plan,
        first: Callable[[], None],
        tier: DeviceTier | None = None,
    ) -> None:
        self._dataset = dataset
        self._options = options
        self._maker = maker
        self._plan = plan
        self._first: Callable[[], None] | None = first
        self._pid = os.getpid()
        self._ended = False
        self._masked = options.masked(plan.cut.share.ranks)
        self._made: deque[tuple[Batch, int]] = deque()
        self.progress = Progress(plan, Meter(), Counters(), _figures(dataset, tier))
        self._held = None if tier is None else tier.begin()
        self._let_go = _nothing if self._held is None else weakref.finalize(self, self._held.end)
        self._start(0, 1 if tier is not None else _together(dataset, options, maker, plan.cut.batch_size))

    def __next__(self) -> Batch:
        if self._ended:
            raise StopIteration
        if self._options.num_workers and self._pid != os.getpid():
            raise LoaderClosed(f"the threads of this iterator are in process {self._pid}: call iter(loader) here")
        meter = self.progress.meter
        meter.ask()
        try:
            self._begin()
            batch, samples = self._take()
        except StopIteration:
            self._ended = True
            self.progress.ended = True
            self.close()
            raise
        except LoaderClosed:
            if self._ended:  # meanwhile, by another thread
                raise StopIteration from None
            raise
        finally:
            meter.get()
        placed = self._placed(batch) if self._held is None else batch
        meter.count(samples)
        self.progress.handed += 1
        return placed

    def close(self) -> None:
        """End the threads; the iterator gives no more batches."""
        self._close()
        self._reading.close()
        self._let_go()
        self._made.clear()

    def _begin(self) -> None:
        """Do what comes before the first batch, while it is made."""
        if self._first is None:
            return
        try:
            self._first()
        except BaseException:
            self.close()
            raise
        self._first = None

    def _start(self, handed: int, together: int) -> None:
        """Begin to make the batches behind the first `handed` ones."""
        options, dataset, cut = self._options, self._dataset, self._plan.cut
        self._together = together
        limits = Limits(
            workers=options.num_workers,
            depth=max(1 + options.num_workers, -(-options.ahead // together)),
            ahead=-(-_AHEAD_SAMPLES // (cut.batch_size * together)) if options.num_workers else 0,
            timeout_s=options.timeout_s,
        )
        order, span = rank_order(self._plan.spec, dataset.layout, self._plan.epoch, cut, together)
        self._origin = span.start
        rest = Span(min(span.end, span.start + handed * cut.batch_size), span.end, cut.batch_size, together)
        self._reading = _reading(dataset, options, self._plan.epoch, order, rest, self._held)
        self._engine: Engine[list[Batch]] = Engine(
            self._reading.steps,
            len(dataset.layout.first) - 1,
            self._reading.read_runs,
            partial(self._maker.begin, epoch=self._plan.epoch),
            limits,
            self.progress.counters,
        )
        self._close = close_with(self, self._engine)

    def _take(self) -> tuple[Batch, int]:
        """Return the next batch and its samples."""
        try:
            return self._made.popleft()
        except IndexError:
            pass
        try:
            batches, step = self._engine.take()
        except Exception:
            if self._together == 1 or not self._engine.failed:
                raise
            # Of batches that were made together one is bad: made one by one, those before it come.
            self._start(self.progress.handed, 1)
            return self._take()
        first, *others = self._counted(batches, step)
        self._made.extend(others)
        return first

    def _counted(self, batches: list[Batch], step: Step) -> list[tuple[Batch, int]]:
        """Add to each batch of a step how many samples it has, and where it is asked for, which are no repeats."""
        size, total = self._plan.cut.batch_size, len(step.rows)
        if self._held is not None and step.slots is not None:
            (made,) = batches
            numbers = _numbers(self._dataset, step.blocks, step.rows)
            tensors = cast("dict[str, torch.Tensor]", self._placed(made))
            batches = [{**self._held.whole(numbers, step.slots, tensors)}]
        out = []
        for low, batch in zip(range(0, total, size), batches, strict=True):
            samples = min(size, total - low)
            if self._masked:
                own = self._plan.own - (step.start + low - self._origin)
                mask = torch.arange(samples) < own
                batch[MASK] = mask if self._held is None else mask.to(self._options.device)
            out.append((batch, samples))
        return out

    def _placed(self, batch: Batch) -> Batch:
        device = self._options.device
        if self._options.pin:
            batch = {name: _map_tensors(torch.Tensor.pin_memory, value) for name, value in batch.items()}
        if device is None:
            return batch
        return {
            name: _map_tensors(lambda tensor: tensor.to(device, non_blocking=True), value)
            for name, value in batch.items()
        }


@dataclass(frozen=True, slots=True)
class _InPlace:
    """Read an epoch of a local dataset where it lies."""

    steps: Iterator[Step]
    read_runs: Callable[[Sequence[tuple[int, int]]], list[Block]]

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _reading(
    dataset: Dataset | MixedDataset,
    options: FeedOptions,
    epoch: int,
    order: RankOrder | Repeated,
    span: Span,
    held: DeviceEpoch | None,
) -> _InPlace | Ahead[Step] | MixedReading[Step]:
    """Return the steps of an order, and what reads their blocks; of samples that a device holds, none are read."""
    find = None if held is None else partial(_find, dataset, held)
    steps = _schedule(dataset, options, order, span, find)
    returns = dataset.layout.returns(options.mode)
    if isinstance(dataset, MixedDataset):
        rest = None if returns or isinstance(order, FullOrder) else partial(order.remaining, span.start)
        return dataset.reading(steps, options.mode, epoch, rest)
    if dataset.tiered is None or (returns and dataset.cache is None):  # which would fetch an extent for a block of it
        return _InPlace(steps, dataset.reader.read_runs)
    if isinstance(order, FullOrder) or returns:
        return dataset.tiered.ahead(steps, None)
    left = order.remaining(span.start)
    if held is not None:
        left[held.held(dataset.index.first)] = 0
    if options.mode == "natural":  # an epoch resumed elsewhere may need others
        return dataset.tiered.ahead(steps, left)
    return dataset.tiered.ahead(steps, left, order.remaining(0) if span.start else left)


def _find(dataset: Dataset | MixedDataset, held: DeviceEpoch, blocks: Blocks, rows: Blocks) -> Blocks:
    return held.find(_numbers(dataset, blocks, rows))


def _numbers(dataset: Dataset | MixedDataset, blocks: Blocks, rows: Blocks) -> npt.NDArray[np.int64]:
    """Return the numbers of records in the whole dataset."""
    return dataset.numbers(blocks, rows).view(np.int64)


def _figures(dataset: Dataset | MixedDataset, tier: DeviceTier | None) -> Callable[[], tuple[TierStats, ...]]:
    """Return what tells what was done with each tier from now on."""
    others: Callable[[], tuple[TierStats, ...]] = tuple
    if isinstance(dataset, MixedDataset):
        others = dataset.figures()
    elif dataset.tiered is not None:
        others = dataset.tiered.figures()
    if tier is None:
        return others
    before = tier.stats()
    return lambda: (tier.stats().since(before), *others())


def _nothing() -> None:
    return


def _schedule(
    dataset: Dataset | MixedDataset, options: FeedOptions, order: RankOrder | Repeated, span: Span, find: Find | None
) -> Iterator[Step]:
    """Return the steps of an order."""
    layout = dataset.layout
    if isinstance(order, FullOrder) or layout.returns(options.mode):
        kept = layout.worth_keeping(options.mode, options.window // dataset.block_nbytes)
        return within(order, layout, span, kept, find)
    return once(order, layout, span, find)


def _together(dataset: Dataset | MixedDataset, options: FeedOptions, maker: Maker, batch_size: int) -> int:
    """Return how many batches are best parsed at a time: a power of two."""
    if not options.num_workers or dataset.layout.returns(options.mode) or not maker.parses_only:
        return 1
    most = min(_MOST_TOGETHER, _TOGETHER_NBYTES // (dataset.record_nbytes * batch_size))
    return 1 << max(0, most.bit_length() - 1)


def _map_tensors(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """Apply a function to the tensors of one value, nested as a transform returned it; text stays as it is."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {name: _map_tensors(function, item) for name, item in value.items()}
    if isinstance(value, Ragged):
        return Ragged(function(value.values), function(value.offsets))
    if isinstance(value, (list, tuple)) and value and not isinstance(value[0], (str, bytes, memoryview)):
        return [_map_tensors(function, item) for item in value]
    return value
