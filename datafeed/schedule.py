"""Say which blocks each batch needs, from the order alone.

A schedule is a sequence of steps, each of one batch or of a few small ones. A step names the places of its records, the
runs of blocks that it is the first to need, and the blocks that nobody needs after it. It is pure: the same order gives
the same schedule, so what is read when never depends on timing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from datafeed.order import Counts, Layout, blocks_of, rows_of
from datafeed.splitmix import Numbers, Places

_CHUNK_RECORDS = 16384  # records planned in one go: numpy's call overhead falls below 5 ns a record
_LOAD_RECORDS = 2048  # blocks due within so many records load with the first of them: neighbours then share one read

Blocks = npt.NDArray[np.int32]
Find = Callable[[Blocks, Blocks], Blocks]
"""Return the slots of records, given the block and row of each, as `Step` has them."""


class AnyOrder(Protocol):
    """Say which record stands at which position."""

    def places(self, start: int, end: int) -> Places:
        """Return the places at positions start to end."""


class OnceOrder(AnyOrder, Protocol):
    """Be an order whose blocks are used for a while and then done with."""

    def remaining(self, position: int) -> Counts:
        """Return, per block, how many of its records stand at `position` or after it."""


@dataclass(frozen=True, slots=True)
class Step:
    """Say what one batch needs, or a few consecutive ones that are made together.

    Args:
        start: The position of its first record in the epoch.
        blocks: int32[n], the block of each record.
        rows: int32[n], its row in the block.
        loads: (start, end) runs of consecutive blocks of one extent, in the order in which their records are due.
        frees: Blocks that no later step needs (unless it loads them again).
        slots: int32[n], where each record is kept made already, -1 for those that are to be made; None for all.
    """

    start: int
    blocks: Blocks
    rows: Blocks
    loads: tuple[tuple[int, int], ...]
    frees: tuple[int, ...]
    slots: Blocks | None = None

    def to_make(self) -> Step:
        """Return the step with the records alone that are to be made."""
        if self.slots is None:
            return self
        missing = self.slots < 0
        return replace(self, blocks=self.blocks[missing], rows=self.rows[missing], slots=None)


@dataclass(frozen=True, slots=True)
class Span:
    """Say which part of an epoch is wanted.

    Args:
        start: The first position.
        end: The position after the last.
        batch_size: Records a batch; the last one may be shorter.
        together: Batches a step, at the most; a power of two, so that the first steps may double up to it.
    """

    start: int
    end: int
    batch_size: int
    together: int = 1


def once(order: OnceOrder, layout: Layout, span: Span, find: Find | None = None) -> Iterator[Step]:
    """Schedule an order whose blocks are used for a while and then done with: each is loaded once.

    A block is freed after the last of its records.

    Args:
        order: Which record stands where.
        layout: Where the records lie.
        span: Which part of the epoch.
        find: Tells which records are made already: they need no block.

    Yields:
        Steps of one batch, then of more, up to `span.together`.
    """
    remaining = order.remaining(span.start)
    loaded = np.zeros(len(remaining), np.bool_)
    for start, end in _chunks(span):
        chunk = order.places(start, end)
        blocks, rows = blocks_of(chunk), rows_of(chunk)
        slots = None if find is None else find(blocks, rows)
        needed = ~loaded[blocks] if slots is None else ~loaded[blocks] & (slots < 0)
        due, fresh = _first_uses(blocks, np.flatnonzero(needed))
        loaded[fresh] = True
        # With an operand of its own dtype ufunc.at takes 3 ns an item, with a plain number 150 ns.
        np.subtract.at(remaining, blocks, np.ones(len(blocks), np.int32))
        last, done = _last_uses(blocks, np.flatnonzero((remaining[blocks] == 0) & loaded[blocks]))
        yield from _steps(layout, span, start, _Uses(blocks, rows, due, fresh, last, done, slots))


def within(order: AnyOrder, layout: Layout, span: Span, room: int, find: Find | None = None) -> Iterator[Step]:
    """Schedule an order that returns to any block at any time: the least recently used blocks are freed.

    Args:
        order: Which record stands where.
        layout: Where the records lie.
        span: Which part of the epoch.
        room: How many blocks may stay loaded between batches; what one batch needs is loaded in any case.
        find: As in `once`.

    Yields:
        A step per batch.
    """
    held: OrderedDict[int, None] = OrderedDict()
    for start, end in _chunks(span):
        chunk = order.places(start, end)
        all_blocks, all_rows = blocks_of(chunk), rows_of(chunk)
        for low in range(0, end - start, span.batch_size):
            blocks, rows = all_blocks[low : low + span.batch_size], all_rows[low : low + span.batch_size]
            slots = None if find is None else find(blocks, rows)
            needed = dict.fromkeys((blocks if slots is None else blocks[slots < 0]).tolist())
            fresh = [block for block in needed if block not in held]
            for block in needed:
                held[block] = None
                held.move_to_end(block)
            frees = tuple(held.popitem(last=False)[0] for _ in range(max(0, len(held) - room)))
            ascending = np.sort(np.array(fresh, np.int32))
            loads = _runs(layout, np.zeros(len(fresh), np.int64), ascending)
            yield Step(start + low, blocks, rows, tuple(loads.runs), frees, slots)


@dataclass(frozen=True, slots=True)
class _Uses:
    """Hold a chunk of places, with the first use of each block that is new and the last of each that is done with."""

    blocks: Blocks
    rows: Blocks
    due: Numbers
    fresh: Blocks
    last: Numbers
    done: Blocks
    slots: Blocks | None


def _steps(layout: Layout, span: Span, start: int, uses: _Uses) -> Iterator[Step]:
    size = min(span.batch_size * span.together, -(-len(uses.blocks) // span.batch_size) * span.batch_size)
    together = max(1, _LOAD_RECORDS // size)
    step, fresh = _by_step(uses.due // size // together * together, uses.fresh)
    loads = _runs(layout, step, fresh)
    free_step, done = _by_step(uses.last // size, uses.done)
    frees = done.tolist()
    starts = range(0, len(uses.blocks), size)
    numbers = np.arange(len(starts) + 1)
    load_bounds = np.searchsorted(loads.step, numbers).tolist()
    free_bounds = np.searchsorted(free_step, numbers).tolist()
    for number, low in enumerate(starts):
        yield Step(
            start + low,
            uses.blocks[low : low + size],
            uses.rows[low : low + size],
            tuple(loads.runs[load_bounds[number] : load_bounds[number + 1]]),
            tuple(frees[free_bounds[number] : free_bounds[number + 1]]),
            None if uses.slots is None else uses.slots[low : low + size],
        )


def _by_step(step: Numbers, blocks: Blocks) -> tuple[Numbers, Blocks]:
    """Sort uses of blocks by step, then by block."""
    order = np.lexsort((blocks, step))
    return step[order], blocks[order]


@dataclass(frozen=True, slots=True)
class _Runs:
    """Hold runs of blocks, (start, end), with the step that needs each."""

    step: Numbers
    runs: list[tuple[int, int]]


def _runs(layout: Layout, step: Numbers, blocks: Blocks) -> _Runs:
    """Join blocks, ascending within each step, into runs that stay within a step and an extent."""
    extent = np.searchsorted(layout.extents, blocks, side="right")
    joined = (blocks[1:] == blocks[:-1] + 1) & (extent[1:] == extent[:-1]) & (step[1:] == step[:-1])
    breaks = np.flatnonzero(~joined)
    first = np.concatenate(([0], breaks + 1))[: len(blocks)]
    last = np.concatenate((breaks, [len(blocks) - 1]))[: len(first)]
    return _Runs(step[first], list(zip(blocks[first].tolist(), (blocks[last] + 1).tolist(), strict=True)))


def _first_uses(blocks: Blocks, at: Numbers) -> tuple[Numbers, Blocks]:
    """Return where each block that is used `at` some places, ascending, is first used, and the blocks."""
    turn = np.argsort(blocks[at], kind="stable")
    used = blocks[at[turn]]
    first = np.append(True, used[1:] != used[:-1])[: len(used)]  # not np.unique: its first call imports for 0.1 s
    return at[turn[first]], used[first]


def _last_uses(blocks: Blocks, at: Numbers) -> tuple[Numbers, Blocks]:
    return _first_uses(blocks, at[::-1])


def _chunks(span: Span) -> Iterator[tuple[int, int]]:
    """Cut a span into chunks of whole batches: one batch first, so that it comes soon, then doubling."""
    most = max(1, _CHUNK_RECORDS // span.batch_size)
    batches, start = 1, span.start
    while start < span.end:
        end = min(span.end, start + batches * span.batch_size)
        yield start, end
        start, batches = end, min(most, batches * 2)
