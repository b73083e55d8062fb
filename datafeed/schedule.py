"""Say which blocks each batch needs, from the order alone.

A schedule is a sequence of steps, one a batch. A step names the places of its records, the runs of blocks that it is
the first to need, and the blocks that nobody needs after it. It is pure: the same order gives the same schedule, so
what is read when never depends on timing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datafeed.order import FullOrder, Layout, NaturalOrder, Numbers, WindowOrder, blocks_of, rows_of

_CHUNK_RECORDS = 16384  # records planned in one go: numpy's call overhead falls below 5 ns a record

Blocks = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Step:
    """Say what one batch needs.

    Args:
        start: The position of its first record in the epoch.
        blocks: int32[n], the block of each record.
        rows: int32[n], its row in the block.
        loads: (start, end) runs of consecutive blocks of one extent, in the order in which their records are due.
        frees: Blocks that no later step needs (unless it loads them again).
    """

    start: int
    blocks: Blocks
    rows: Blocks
    loads: tuple[tuple[int, int], ...]
    frees: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Say which part of an epoch is wanted.

    Args:
        start: The first position.
        end: The position after the last.
        batch_size: Records a batch; the last one may be shorter.
    """

    start: int
    end: int
    batch_size: int


def once(order: WindowOrder | NaturalOrder, layout: Layout, span: Span) -> Iterator[Step]:
    """Schedule an order whose blocks are used for a while and then done with: each is loaded once.

    A block is freed after the last of its records.

    Args:
        order: Which record stands where.
        layout: Where the records lie.
        span: Which part of the epoch.

    Yields:
        A step per batch.
    """
    remaining = order.remaining(span.start)
    loaded = np.zeros(len(remaining), np.bool_)
    for start, end in _chunks(span):
        chunk = order.places(start, end)
        blocks, rows = blocks_of(chunk), rows_of(chunk)
        due, fresh = _first_uses(blocks, np.flatnonzero(~loaded[blocks]))
        loaded[fresh] = True
        # With an operand of its own dtype ufunc.at takes 3 ns an item, with a plain number 150 ns.
        np.subtract.at(remaining, blocks, np.ones(len(blocks), np.int32))
        last, done = _last_uses(blocks, np.flatnonzero(remaining[blocks] == 0))
        yield from _steps(layout, span, start, _Uses(blocks, rows, due, fresh, last, done))


def within(order: FullOrder, layout: Layout, span: Span, room: int) -> Iterator[Step]:
    """Schedule an order that returns to any block at any time: the least recently used blocks are freed.

    Args:
        order: Which record stands where.
        layout: Where the records lie.
        span: Which part of the epoch.
        room: How many blocks may stay loaded between batches; what one batch needs is loaded in any case.

    Yields:
        A step per batch.
    """
    held: OrderedDict[int, None] = OrderedDict()
    for start, end in _chunks(span):
        chunk = order.places(start, end)
        all_blocks, all_rows = blocks_of(chunk), rows_of(chunk)
        for low in range(0, end - start, span.batch_size):
            blocks, rows = all_blocks[low : low + span.batch_size], all_rows[low : low + span.batch_size]
            needed = dict.fromkeys(blocks.tolist())
            fresh = [block for block in needed if block not in held]
            for block in needed:
                held[block] = None
                held.move_to_end(block)
            frees = tuple(held.popitem(last=False)[0] for _ in range(max(0, len(held) - room)))
            yield Step(start + low, blocks, rows, tuple(_runs(np.sort(fresh), layout)), frees)


@dataclass(frozen=True, slots=True)
class _Uses:
    """Hold a chunk of places, with the first use of each block that is new and the last of each that is done with."""

    blocks: Blocks
    rows: Blocks
    due: Numbers
    fresh: Blocks
    last: Numbers
    done: Blocks


def _steps(layout: Layout, span: Span, start: int, uses: _Uses) -> Iterator[Step]:
    loads, frees = _by_batch(uses.due, uses.fresh, span), _by_batch(uses.last, uses.done, span)
    for number, low in enumerate(range(0, len(uses.blocks), span.batch_size)):
        part = slice(low, low + span.batch_size)
        fresh = loads.get(number)
        yield Step(
            start + low,
            uses.blocks[part],
            uses.rows[part],
            () if fresh is None else tuple(_runs(fresh, layout)),
            tuple(frees[number].tolist()) if number in frees else (),
        )


def _by_batch(at: Numbers, blocks: Blocks, span: Span) -> dict[int, Blocks]:
    """Group blocks by the batch of the position at which they are used; within a batch by number."""
    batch = at // span.batch_size
    order = np.lexsort((blocks, batch))
    batch, blocks = batch[order], blocks[order]
    numbers, begins = np.unique(batch, return_index=True)
    return dict(zip(numbers.tolist(), np.split(blocks, begins[1:]), strict=True)) if len(numbers) else {}


def _runs(blocks: Blocks, layout: Layout) -> Iterator[tuple[int, int]]:
    """Join ascending blocks into runs that stay within an extent."""
    if not len(blocks):
        return
    extent = np.searchsorted(layout.extents, blocks, side="right")
    breaks = np.flatnonzero((blocks[1:] != blocks[:-1] + 1) | (extent[1:] != extent[:-1])) + 1
    for run in np.split(blocks, breaks):
        yield int(run[0]), int(run[-1]) + 1


def _first_uses(blocks: Blocks, at: Numbers) -> tuple[Numbers, Blocks]:
    fresh, first = np.unique(blocks[at], return_index=True)
    return at[first], fresh


def _last_uses(blocks: Blocks, at: Numbers) -> tuple[Numbers, Blocks]:
    backwards = at[::-1]
    done, first = np.unique(blocks[backwards], return_index=True)
    return backwards[first], done


def _chunks(span: Span) -> Iterator[tuple[int, int]]:
    """Cut a span into chunks of whole batches: one batch first, so that it comes soon, then doubling."""
    most = max(1, _CHUNK_RECORDS // span.batch_size)
    batches, start = 1, span.start
    while start < span.end:
        end = min(span.end, start + batches * span.batch_size)
        yield start, end
        start, batches = end, min(most, batches * 2)
