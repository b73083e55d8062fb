"""Iterate over the epochs of a converted dataset."""

from __future__ import annotations

import operator
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, SupportsIndex

import torch

from datafeed.dataset import Dataset
from datafeed.errors import ConfigError, LoaderClosed
from datafeed.making import Batch, Maker, Recipe
from datafeed.order import FullOrder, Mode, NaturalOrder, Spec, WindowOrder, round_window
from datafeed.pipeline import Engine, close_with
from datafeed.ragged import Ragged
from datafeed.schedule import Span, Step, once, within
from datafeed.state import OrderIdentity, Position, read_state, write_state
from datafeed.stats import LoaderStats, Meter
from datafeed.work import Counters, Limits

_AHEAD_SAMPLES = 1024  # whose blocks load beyond the prefetched batches: a window's start then needs no pause
# Small batches are made several at a time: then the cost of a task, of a hand-over between threads and of a call of the
# parser is shared. So many raw bytes still lie in a core's cache when they are handed out.
_TOGETHER_NBYTES = 2**22
_MOST_TOGETHER = 16


# The names are the Loader's.
_LEAST: dict[str, int | None] = {"batch_size": 1, "seed": None, "lanes": 1, "num_workers": 0, "prefetch_factor": 2}


def whole_number(name: str, value: object, least: int | None) -> int:
    """Return an option as a Python int: a state holds it as JSON.

    Raises:
        ConfigError: It is no integer, or below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise ConfigError(f"{name} must be an integer, found {value!r}")
    number = operator.index(value)
    if least is not None and number < least:
        raise ConfigError(f"{name} must be at least {least}, found {value!r}")
    return number


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Say how a dataset is fed.

    Args:
        batch_size: Samples a batch, at least 1.
        mode: The order.
        seed: Chooses the order and each sample's random generator.
        lanes: Streams that the shuffled order is drawn from, at least 1.
        window: Raw bytes shuffled with each other, over all lanes.
        drop_last: Whether a short last batch is dropped.
        num_workers: Threads; 0 for the caller's own.
        prefetch_factor: Batches made ahead, at least 2; small ones are made several at a time, so that it may be more.
        timeout_s: How long a batch may take; 0 for as long as anything moves.
        recipe: What a batch is made of.
        device: Where batches are moved; None leaves them in host memory.
        pin: Whether tensors come in pinned memory.

    Raises:
        ConfigError: A value is out of range.
    """

    batch_size: int
    mode: Mode
    seed: int
    lanes: int
    window: int
    drop_last: bool
    num_workers: int
    prefetch_factor: int
    timeout_s: float = 0.0
    recipe: Recipe = field(default_factory=Recipe)
    device: torch.device | None = None
    pin: bool = False

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        if not self.timeout_s >= 0:
            raise ConfigError(f"timeout must be at least 0 seconds, found {self.timeout_s!r}")


class Feed:
    """Count the epochs of one dataset, and begin them.

    Args:
        dataset: The dataset.
        options: How it is fed.

    Raises:
        ConfigError: The recipe does not fit the dataset.
        SchemaError: A column is unknown.
    """

    def __init__(self, dataset: Dataset, options: FeedOptions) -> None:
        self.dataset = dataset
        self.options = options
        self._next = Position(0, 0)
        self._newest: Progress | None = None
        self._measured: Progress | None = None
        _ = self.maker  # a mistake in the recipe is told here, not at the first batch

    def __getstate__(self) -> dict[str, object]:
        return {
            "dataset": self.dataset,
            "options": self.options,
            "_next": self._where(),
            "_newest": None,
            "_measured": None,
        }

    def __len__(self) -> int:
        records, batch_size = len(self.dataset), self.options.batch_size
        return records // batch_size if self.options.drop_last else -(-records // batch_size)

    def __iter__(self) -> FeedIterator:
        begin = self._next
        iterator = FeedIterator(self, begin)
        self._newest = self._measured = iterator.progress
        self._next = Position(begin.epoch + 1, 0)
        return iterator

    def set_epoch(self, epoch: int) -> None:
        """Fix the epoch that the next `iter` begins; a position loaded for the same epoch is kept."""
        epoch = whole_number("epoch", epoch, 0)
        if epoch != self._next.epoch:
            self._next = Position(epoch, 0)
        self._newest = None

    def state_dict(self) -> dict[str, object]:
        """Return where the newest iterator stands, or where the next one will begin."""
        return write_state(self._identity, self._where())

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Make the next `iter` begin where a state says.

        Raises:
            StateMismatch: The state belongs to another dataset, order or version.
        """
        self._next = read_state(self._identity, state)
        self._newest = None

    def stats(self) -> LoaderStats:
        """Return the figures of the newest iterator; zeros before the first."""
        return LoaderStats() if self._measured is None else self._measured.stats()

    def _where(self) -> Position:
        return self._next if self._newest is None else self._newest.position

    @cached_property
    def maker(self) -> Maker:
        """What makes the batches of all epochs."""
        options = self.options
        return Maker(self.dataset, options.recipe, options.seed, options.batch_size, self.ahead + 1)

    @property
    def ahead(self) -> int:
        """How many batches are made ahead of the caller, where they are made one by one."""
        return self.options.prefetch_factor + self.options.num_workers if self.options.num_workers else 1

    @cached_property
    def spec(self) -> Spec:
        """The order, with its window in records."""
        records, options = max(1, len(self.dataset)), self.options
        if options.mode != "window":
            return Spec(options.mode, options.seed)
        record_bytes = max(1, self.dataset.manifest.raw_bytes // records)
        window = min(options.window // record_bytes, records) // options.lanes
        return Spec("window", options.seed, options.lanes, round_window(window))

    @property
    def _identity(self) -> OrderIdentity:
        manifest = self.dataset.manifest
        return OrderIdentity(manifest.digest, len(self.dataset), manifest.header.extent_size, self.spec)

    def schedule(self, begin: Position, together: int) -> Iterator[Step]:
        """Return the steps from a position to the end of its epoch, each of up to so many batches."""
        span = self.span(begin, together)
        layout, options = self.dataset.layout, self.options
        if options.mode == "full":
            block_bytes = max(1, self.dataset.manifest.raw_bytes // max(1, len(layout.first) - 1))
            room = max(1, options.window // block_bytes)
            return within(FullOrder(self.spec, layout, begin.epoch), layout, span, room)
        order = NaturalOrder(layout) if options.mode == "natural" else WindowOrder(self.spec, layout, begin.epoch)
        return once(order, layout, span)

    def span(self, begin: Position, together: int = 1) -> Span:
        """Return the positions that are still to come."""
        batch_size, left = self.options.batch_size, len(self.dataset) - begin.record
        if self.options.drop_last:
            left -= left % batch_size
        return Span(begin.record, begin.record + left, batch_size, together)

    @property
    def together(self) -> int:
        """How many batches are best parsed at a time: a power of two."""
        options, manifest = self.options, self.dataset.manifest
        if not options.num_workers or options.mode == "full" or not self.maker.parses_only:
            return 1
        batch_bytes = max(1, manifest.raw_bytes * options.batch_size // max(1, len(self.dataset)))
        most = min(_MOST_TOGETHER, _TOGETHER_NBYTES // batch_bytes)
        return 1 << max(0, most.bit_length() - 1)


@dataclass(slots=True)
class Progress:
    """Hold how far an iterator is, apart from it: whoever asks does not keep the iterator and its threads alive."""

    position: Position
    meter: Meter
    counters: Counters

    def stats(self) -> LoaderStats:
        """Return what was handed out so far, and what it took."""
        return self.meter.stats(self.counters)


class FeedIterator(Iterator[Batch]):
    """Hand out the batches of one epoch.

    Args:
        feed: What is fed.
        begin: The epoch, and its first position.
    """

    def __init__(self, feed: Feed, begin: Position) -> None:
        self._feed = feed
        self._pid = os.getpid()
        self._ended = False
        self._epoch = begin.epoch
        self._end = feed.span(begin).end
        self._made: deque[tuple[Batch, int, Position]] = deque()
        self.progress = Progress(self._position(begin.record), Meter(), Counters())
        self._start(begin, feed.together)

    def __next__(self) -> Batch:
        if self._ended:
            raise StopIteration
        if self._feed.options.num_workers and self._pid != os.getpid():
            raise LoaderClosed(f"the threads of this iterator are in process {self._pid}: call iter(loader) here")
        meter = self.progress.meter
        meter.ask()
        try:
            batch, samples, position = self._take()
        except StopIteration:
            self._ended = True
            self.close()
            raise
        except LoaderClosed:
            if self._ended:  # meanwhile, by another thread
                raise StopIteration from None
            raise
        finally:
            meter.get()
        meter.count(samples)
        self.progress.position = position
        return self._placed(batch)

    def close(self) -> None:
        """End the threads; the iterator gives no more batches."""
        self._close()
        self._made.clear()

    def _start(self, begin: Position, together: int) -> None:
        feed, options = self._feed, self._feed.options
        self._together = together
        limits = Limits(
            workers=options.num_workers,
            depth=max(1 + options.num_workers, -(-feed.ahead // together)),
            ahead=-(-_AHEAD_SAMPLES // (options.batch_size * together)) if options.num_workers else 0,
            timeout_s=options.timeout_s,
        )
        self._engine: Engine[list[Batch]] = Engine(
            feed.schedule(begin, together),
            sum(shard.blocks for shard in feed.dataset.manifest.shards),
            feed.dataset.reader.read_runs,
            partial(feed.maker.begin, epoch=begin.epoch),
            limits,
            self.progress.counters,
        )
        self._close = close_with(self, self._engine)

    def _take(self) -> tuple[Batch, int, Position]:
        """Return the next batch, its samples, and the position after it."""
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
            self._start(self.progress.position, 1)
            return self._take()
        size = self._feed.options.batch_size
        made: list[tuple[Batch, int, Position]] = []
        for number, batch in enumerate(batches):
            samples = min(size, len(step.rows) - number * size)
            made.append((batch, samples, self._position(step.start + number * size + samples)))
        self._made.extend(made[1:])
        return made[0]

    def _position(self, done: int) -> Position:
        return Position(self._epoch, done) if done < self._end else Position(self._epoch + 1, 0)

    def _placed(self, batch: Batch) -> Batch:
        device = self._feed.options.device
        if self._feed.options.pin:
            batch = {name: _map_tensors(torch.Tensor.pin_memory, value) for name, value in batch.items()}
        if device is None:
            return batch
        return {
            name: _map_tensors(lambda tensor: tensor.to(device, non_blocking=True), value)
            for name, value in batch.items()
        }


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
