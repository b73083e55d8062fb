"""Compute which record stands at which position of an epoch.

All of it is integer arithmetic on (seed, epoch, blocks, lanes, window): any position is reached without walking to it,
and the same arguments give the same order for ever, as randomness is splitmix64 on counters. `VERSION` names the order;
a change of it makes saved states refuse to load.

The window order: extents are permuted by the seed, laid end to end, and cut into `lanes` pieces, the first
(records mod lanes) one record longer. Within a lane the epoch permutes the pieces of extents, then the records inside
windows. Position k is record k div lanes of lane k mod lanes.

A place is a record's address, `block << 32 | row`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from datafeed.splitmix import EXTENTS, FEISTEL, RUNS, WINDOW, Numbers, Places, feistel, permutation, stream

VERSION = 1

Mode = Literal["window", "full", "natural"]
Counts = npt.NDArray[np.int32]
Rows = Callable[[Numbers, Numbers], Numbers]

_FIRST_WINDOW = 32
_COUNTED_BLOCKS = 2**18  # at a time: a terabyte has 4 million


@dataclass(frozen=True, slots=True)
class Layout:
    """Say where the records of a dataset lie, or those of it that were chosen.

    Args:
        first: int64[blocks + 1], the number of each block's first record, then the number of records.
        extents: int64[extents + 1], the block in which each extent begins, then the number of blocks.
        chosen: Returns the row of each record in its block, int64[n], from the blocks and from what it is among those
            chosen of its block, from 0, both int64[n]; None where all records are.
        turn: int64[records], which record, in the order of blocks, each number means; None where numbers ascend so.
    """

    first: Numbers
    extents: Numbers
    chosen: Rows | None = None
    turn: Numbers | None = None

    @property
    def records(self) -> int:
        """How many records there are."""
        return int(self.first[-1])

    def places(self, numbers: Numbers) -> Places:
        """Return the places of records given by number."""
        if self.turn is not None:
            numbers = self.turn[numbers]
        blocks = np.searchsorted(self.first, numbers, side="right") - 1
        return self.actual(blocks.astype(np.uint64) << np.uint64(32) | (numbers - self.first[blocks]).astype(np.uint64))

    def actual(self, places: Places) -> Places:
        """Return the places of records given by their block, and what they are among those chosen of it."""
        if self.chosen is None:
            return places
        blocks = (places >> np.uint64(32)).astype(np.int64)
        rows = self.chosen(blocks, (places & np.uint64(0xFFFFFFFF)).astype(np.int64))
        return places >> np.uint64(32) << np.uint64(32) | rows.astype(np.uint64)

    def returns(self, mode: Mode) -> bool:
        """Tell whether an order returns to any block at any time: as numbers in any order, left as given, do too."""
        return mode == "full" or (mode == "natural" and self.turn is not None)

    def worth_keeping(self, mode: Mode, room: int) -> int:  # noqa: ARG002  (of a mix it counts)
        """Return how many blocks an order that returns to them should keep, where there is room for so many."""
        return max(1, room)

    def numbers(self, places: Places) -> Numbers:
        """Return the numbers of records given by place, where all are chosen."""
        return self.first[blocks_of(places)] + rows_of(places)


def blocks_of(places: Places) -> npt.NDArray[np.int32]:
    """Return the block of each place."""
    return (places >> np.uint64(32)).astype(np.int32)


def rows_of(places: Places) -> npt.NDArray[np.int32]:
    """Return the row, within its block, of each place."""
    return (places & np.uint64(0xFFFFFFFF)).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Spec:
    """Fix an order, for every epoch.

    Args:
        mode: "window", "full" (a true permutation) or "natural" (as written).
        seed: Any integer; its low 64 bits count.
        lanes: Into how many pieces the window order cuts the records, at least 1.
        window: Records a lane's window holds, at least 1; `round_window` gives the values that are kept exactly.
    """

    mode: Mode
    seed: int
    lanes: int = 1
    window: int = 1


def round_window(records: int) -> int:
    """Return the largest window not above `records` that doubling from a small first window reaches exactly."""
    records = max(1, records)
    doublings = max(0, records.bit_length() - _FIRST_WINDOW.bit_length())
    return records >> doublings << doublings


@dataclass(frozen=True, slots=True)
class Share:
    """Take the positions k of an epoch with k mod ranks == rank, numbered by k div ranks.

    Args:
        rank: Which share, from 0.
        ranks: How many shares there are, at least 1.
    """

    rank: int = 0
    ranks: int = 1

    def count(self, position: int) -> int:
        """Return how many of the share's positions lie below a position of the epoch."""
        return max(0, -(-(position - self.rank) // self.ranks))


WHOLE = Share()


class FullOrder:
    """Permute all records of one epoch: every batch may need any block.

    Args:
        spec: The order; its mode is "full".
        layout: Where the records lie.
        epoch: Which epoch, from 0.
        share: Which of the positions; those that it takes are numbered anew, from 0.
    """

    def __init__(self, spec: Spec, layout: Layout, epoch: int, share: Share = WHOLE) -> None:
        self._layout = layout
        self._share = share
        self._key = pass_key(spec, epoch)

    def places(self, start: int, end: int) -> Places:
        """Return the places at positions start to end."""
        positions = np.arange(start, end, dtype=np.uint64)
        positions *= np.uint64(self._share.ranks)
        positions += np.uint64(self._share.rank)
        return self._layout.places(feistel(positions, self._layout.records, self._key))


class WindowOrder:
    """Permute the records of one epoch within windows.

    It keeps the windows that it last used, so reading on is cheap and jumping costs a window a lane. It is not safe to
    share between threads.

    Args:
        spec: The order; its mode is "window".
        layout: Where the records lie.
        epoch: Which epoch, from 0.
        share: Which of the positions; those that it takes are numbered anew, from 0. Its ranks divide the lanes: so
            they are all the positions of lanes of its own.
    """

    def __init__(self, spec: Spec, layout: Layout, epoch: int, share: Share = WHOLE) -> None:
        assert spec.lanes % share.ranks == 0
        self._spec = spec
        self._first = layout.first
        lengths = lane_lengths(layout.records, spec.lanes)
        runs = cut_runs(spec, layout, lengths)
        own = range(share.rank, spec.lanes, share.ranks)
        self._lanes = [Lane(spec, layout, lane, epoch, runs[lane]) for lane in own]

    def places(self, start: int, end: int) -> Places:
        """Return the places at positions start to end."""
        lanes = len(self._lanes)
        out = np.empty(end - start, np.uint64)
        for offset in range(min(lanes, end - start)):
            position = start + offset
            lane = self._lanes[position % lanes]
            part = out[offset::lanes]
            lane.take(position // lanes, part)
        return out

    def remaining(self, position: int) -> Counts:
        """Return, per block, how many of its records stand at `position` or after it."""
        counts = np.zeros(len(self._first) - 1, np.int32)
        positions = [max(0, -(-(position - number) // len(self._lanes))) for number in range(len(self._lanes))]
        later = [lane.count_from(start, counts) for lane, start in zip(self._lanes, positions, strict=True)]
        starts, lengths = (np.concatenate(parts) for parts in zip(*later, strict=True))
        add_covered(self._first, starts, lengths, counts)
        return counts


def lane_lengths(records: int, lanes: int) -> Numbers:
    """Return how many records each lane holds: equal but for the first (records mod lanes), which hold one more."""
    return records // lanes + (np.arange(lanes) < records % lanes).astype(np.int64)


def window_bounds(spec: Spec, lane: int, position: int) -> tuple[int, int, int]:
    """Return (number, start, end) of the window of a lane that holds a position.

    Windows double from a small one, so that the first batch needs few blocks, up to `spec.window`. The first one is
    longer by lane / lanes, so that no two lanes begin a full window at the same time.

    Args:
        spec: The order.
        lane: Which lane, from 0.
        position: A position in the lane, from 0.
    """
    doublings = max(0, spec.window.bit_length() - _FIRST_WINDOW.bit_length())
    base = spec.window >> doublings
    first = base + base * lane // spec.lanes
    ramp = first * ((1 << doublings) - 1)
    if position < ramp:
        number = (position // first + 1).bit_length() - 1
        return number, first * ((1 << number) - 1), first * ((2 << number) - 1)
    number = (position - ramp) // spec.window
    start = ramp + number * spec.window
    return doublings + number, start, start + spec.window


class Lane:
    """Keep the current window of one lane.

    Args:
        spec: The order; its mode is "window".
        layout: Where the records lie.
        lane: Which lane, from 0.
        epoch: Which epoch, from 0.
        runs: Its pieces of extents, as `cut_runs` returns them.
    """

    def __init__(self, spec: Spec, layout: Layout, lane: int, epoch: int, runs: tuple[Numbers, Numbers]) -> None:
        self._spec = spec
        self._layout = layout
        self._epoch = epoch
        self._lane = lane
        starts, lengths = runs
        turn = permutation(len(starts), stream(RUNS, spec.seed, epoch, lane)).astype(np.int64)
        self._starts = starts[turn]
        self._bounds = np.concatenate(([0], np.cumsum(lengths[turn])))  # of the runs, in the lane
        self._window = np.empty(0, np.uint64)
        self._window_start = 0

    def take(self, position: int, out: Places) -> None:
        """Fill `out` with the lane's places from `position` on."""
        done = 0
        while done < len(out):
            begin = position - self._window_start
            if not 0 <= begin < len(self._window):
                begin = self._enter(position)
            part = self._window[begin : begin + len(out) - done]
            out[done : done + len(part)] = part
            done += len(part)
            position += len(part)

    def count_from(self, position: int, counts: Counts) -> tuple[Numbers, Numbers]:
        """Add to `counts`, per block, what is left of the window at `position`.

        Returns:
            The record numbers behind that window, as runs: where each begins, and its length.
        """
        if position >= int(self._bounds[-1]):
            return self._starts[:0], self._starts[:0]
        if not position:  # as most epochs begin: no window has to be made
            return self._starts, np.diff(self._bounds)
        self._enter(position)
        rest = blocks_of(self._window[position - self._window_start :])
        np.add.at(counts, rest, np.ones(len(rest), np.int32))
        return self._runs(self._window_start + len(self._window), int(self._bounds[-1]))

    def _runs(self, start: int, end: int) -> tuple[Numbers, Numbers]:
        """Return the runs of record numbers at the lane's positions start to end."""
        low = int(np.searchsorted(self._bounds, start, side="right")) - 1
        high = int(np.searchsorted(self._bounds, end, side="left"))
        bounds = np.minimum(np.maximum(self._bounds[low : high + 1], start), end)
        return self._starts[low:high] + (bounds[:-1] - self._bounds[low:high]), np.diff(bounds)

    def _enter(self, position: int) -> int:
        """Make the window that holds a position; return the position's place in it."""
        number, start, end = window_bounds(self._spec, self._lane, position)
        end = min(end, int(self._bounds[-1]))
        turn = permutation(end - start, stream(WINDOW, self._spec.seed, self._epoch, self._lane, number))
        ascending = _places(self._layout.first, *self._runs(start, end))
        self._window = self._layout.actual(ascending[turn.astype(np.int64)])
        self._window_start = start
        return position - start


def _places(first: Numbers, starts: Numbers, lengths: Numbers) -> Places:
    """Return the places of runs of records, end to end."""
    ends = starts + lengths
    low = np.searchsorted(first, starts, side="right") - 1
    counts = np.searchsorted(first, ends, side="left") - low
    blocks = np.arange(counts.sum(), dtype=np.int64) + np.repeat(low - (np.cumsum(counts) - counts), counts)
    begins = np.maximum(first[blocks], np.repeat(starts, counts))
    sizes = np.minimum(first[blocks + 1], np.repeat(ends, counts)) - begins
    rows = (begins - first[blocks]).astype(np.uint64)
    # What added to a position gives the place; the low half may wrap, and the addition wraps it back.
    base = (blocks.astype(np.uint64) << np.uint64(32) | rows) - (np.cumsum(sizes) - sizes).astype(np.uint64)
    places = np.repeat(base, sizes)
    places += np.arange(len(places), dtype=np.uint64)
    return places


def add_covered(first: Numbers, starts: Numbers, lengths: Numbers, counts: Counts) -> None:
    """Add to `counts`, per block, how many of its records lie in runs of records, of which no two overlap."""
    turn = np.argsort(starts)
    begins, ends = starts[turn], (starts + lengths)[turn]
    apart = begins[1:] != ends[:-1]  # runs that touch are one
    begins = begins[np.append(True, apart)[: len(begins)]]
    ends = ends[np.append(apart, True)[: len(ends)]]
    low = np.searchsorted(first, begins, side="right") - 1
    high = np.searchsorted(first, ends, side="left")
    touching = np.zeros(len(first), np.int32)  # how many runs touch each block
    np.add.at(touching, low, np.ones(len(low), np.int32))
    np.subtract.at(touching, high, np.ones(len(high), np.int32))
    np.cumsum(touching, out=touching)
    for start in range(0, len(counts), _COUNTED_BLOCKS):
        part = slice(start, start + _COUNTED_BLOCKS)
        sizes = np.diff(first[start : start + _COUNTED_BLOCKS + 1])
        counts[part] += touching[part][: len(sizes)] * sizes.astype(np.int32)
    np.subtract.at(counts, low, (begins - first[low]).astype(np.int32))
    np.subtract.at(counts, high - 1, (first[high] - ends).astype(np.int32))


def cut_runs(spec: Spec, layout: Layout, lengths: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Lay the permuted extents end to end and cut them into lanes.

    Args:
        spec: The order.
        layout: Where the records lie.
        lengths: int64[lanes], the records of each lane; together all.

    Returns:
        Per lane, the first records' numbers and the lengths of its runs, both int64[runs].
    """
    extent_first = layout.first[layout.extents]
    turn = permutation(len(layout.extents) - 1, stream(EXTENTS, spec.seed)).astype(np.int64)
    begins = extent_first[turn]
    extent_bounds = np.concatenate(([0], np.cumsum(extent_first[turn + 1] - begins)))
    lane_bounds = np.concatenate(([0], np.cumsum(lengths)))
    bounds = np.sort(np.concatenate((extent_bounds, lane_bounds)))
    bounds = bounds[np.append(True, bounds[1:] != bounds[:-1])]  # not np.unique: its first call imports for 0.1 s
    extent = np.searchsorted(extent_bounds, bounds[:-1], side="right") - 1
    starts = begins[extent] + bounds[:-1] - extent_bounds[extent]
    sizes = np.diff(bounds)
    edges = np.searchsorted(bounds, lane_bounds)
    return [(starts[low:high], sizes[low:high]) for low, high in itertools.pairwise(edges)]


def pass_key(spec: Spec, epoch: int) -> int:
    """Return the key of the permutation of all records in one epoch."""
    return stream(FEISTEL, spec.seed, epoch)
