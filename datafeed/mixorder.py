"""Compute which record stands at which position of an epoch that mixes several datasets.

A `Weave` says which dataset has which position. A dataset's positions, through all epochs, are cut into passes of as
many positions as it has records: each pass gives every record once, and the next epoch goes on where this one ends. In
the shuffled orders, lane l's piece of a pass is as long as the pass has positions in lane l, so that a rank, whose
positions are lanes of its own, reads its own pieces alone.

Each pass of an epoch has blocks of its own number: to those who load and free blocks, an epoch is one dataset in which
the passes stand one behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from datafeed.errors import ConfigError
from datafeed.order import WHOLE, Counts, Lane, Layout, Mode, Share, Spec, add_covered, cut_runs, pass_key, round_window
from datafeed.splitmix import MIX, Numbers, Places, feistel, stream
from datafeed.weave import Weave

_ROW_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Part:
    """Say what a dataset is to a mix.

    Args:
        layout: Where its records lie.
        count: How many positions of an epoch it has, at least 1.
        base: The number of its first block in the mix.
    """

    layout: Layout
    count: int
    base: int

    @property
    def blocks(self) -> int:
        """How many blocks it has."""
        return len(self.layout.first) - 1

    @property
    def passes(self) -> int:
        """How many passes may meet in one epoch."""
        whole, rest = divmod(self.count, self.layout.records)
        return whole + 2 if rest else whole

    def within(self, epoch: int) -> range:
        """Return the passes of an epoch."""
        begin, end = epoch * self.count, (epoch + 1) * self.count
        return range(begin // self.layout.records, -(-end // self.layout.records))

    def first_block(self, number: int) -> int:
        """Return the number, in the mix, of the first block of a pass."""
        return self.base + number % self.passes * self.blocks


@dataclass(frozen=True, slots=True)
class MixLayout(Layout):
    """Lay the passes of several datasets one behind the other.

    Args:
        parts: The datasets.
        weights: The share of each.
        seed: Chooses which dataset begins.
        run: How many positions in a row are of one dataset.
    """

    parts: tuple[Part, ...] = ()
    weights: tuple[Fraction, ...] = ()
    seed: int = 0
    run: int = 1

    def returns(self, mode: Mode) -> bool:
        """Tell whether an order returns to any block at any time."""
        return mode != "window"

    def worth_keeping(self, mode: Mode, room: int) -> int:
        """Return how many blocks to keep: of a dataset in the order as written, the one that it has come to."""
        ascending = mode == "natural" and all(part.layout.turn is None for part in self.parts)
        return max(1, min(room, 2 * len(self.parts)) if ascending else room)

    def weave(self, lanes: int) -> Weave:
        """Return which dataset has which position.

        Raises:
            ConfigError: The lanes do not divide the run.
        """
        if self.run > 1 and self.run % lanes:
            raise ConfigError(f"run={self.run} of this mix needs lanes= that divide it, found {lanes}")
        return Weave(self.weights, [part.count for part in self.parts], lanes, self.seed, self.run)


def mix_layout(
    layouts: Sequence[Layout], counts: Sequence[int], weights: Sequence[Fraction], seed: int, run: int = 1
) -> MixLayout:
    """Lay the passes of an epoch one behind the other.

    Args:
        layouts: Of each dataset, where its records lie.
        counts: How many positions of an epoch each has, at least 1.
        weights: The share of each.
        seed: Chooses which dataset begins.
        run: How many positions in a row are of one dataset.
    """
    parts: list[Part] = []
    first, extents = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    records = blocks = 0
    for layout, count in zip(layouts, counts, strict=True):
        part = Part(layout, count, blocks)
        parts.append(part)
        turns = np.arange(part.passes).reshape(-1, 1)
        first.append((records + turns * layout.records + layout.first[1:]).reshape(-1))
        extents.append((blocks + turns * part.blocks + layout.extents[1:]).reshape(-1))
        records, blocks = records + part.passes * layout.records, blocks + part.passes * part.blocks
    return MixLayout(
        np.concatenate(first), np.concatenate(extents), parts=tuple(parts), weights=tuple(weights), seed=seed, run=run
    )


class MixOrder:
    """Mix datasets in one of the shuffled orders. It is not safe to share between threads.

    Args:
        spec: The order; its mode is "window" or "full", its window holds records of all datasets.
        layout: Where the records lie.
        epoch: Which epoch, from 0.
        share: Which of the positions; those that it takes are numbered anew, from 0. Its ranks divide the lanes.
    """

    def __init__(self, spec: Spec, layout: MixLayout, epoch: int, share: Share = WHOLE) -> None:
        assert spec.lanes % share.ranks == 0
        self._weave = layout.weave(spec.lanes)
        self._blocks = len(layout.first) - 1
        self._own = np.arange(share.rank, spec.lanes, share.ranks)
        self._sequences = [_Passes(spec, layout, number, epoch, self._weave) for number in range(len(layout.parts))]

    def places(self, start: int, end: int) -> Places:
        """Return the places at positions start to end."""
        lanes = len(self._own)
        low, high = self._turns(start), self._turns(end)
        begin = start // lanes
        turns = np.arange(begin, int(high.max()) + 1).reshape(-1, 1)
        counts = self._weave.before(turns, self._own)
        out = np.empty((len(turns) - 1, lanes), np.uint64)
        for column, (lane, first, last) in enumerate(
            zip(self._own.tolist(), (low - begin).tolist(), (high - begin).tolist(), strict=True)
        ):
            if first < last:
                self._fill(lane, counts[:, first : last + 1, column], out[first:last, column])
        for sequence in self._sequences:
            sequence.forget()
        return out.reshape(-1)[start - begin * lanes : end - begin * lanes]

    def remaining(self, position: int) -> Counts:
        """Return, per block, how many of its records stand at `position` or after it."""
        counts = np.zeros(self._blocks, np.int32)
        before = self._weave.before(self._turns(position), self._own)
        for sequence, begins in zip(self._sequences, before, strict=True):
            sequence.count_from(self._own, begins, counts)
        return counts

    def _turns(self, position: int) -> Numbers:
        """Return, per lane, how many of its positions lie below one of the share."""
        lanes = len(self._own)
        return np.maximum(0, -((np.arange(lanes) - position) // lanes))

    def _fill(self, lane: int, counts: Numbers, out: Places) -> None:
        """Fill `out` with positions of a lane: `counts` says how many before each of them every dataset has."""
        for sequence, count in zip(self._sequences, counts, strict=True):
            at = np.flatnonzero(count[1:] != count[:-1])
            if len(at):
                out[at] = sequence.take(lane, int(count[0]), len(at))


class _Passes:
    """Walk the lanes of one dataset, pass after pass."""

    def __init__(self, spec: Spec, layout: MixLayout, number: int, epoch: int, weave: Weave) -> None:
        part = self._part = layout.parts[number]
        window = round_window(spec.window * part.count // weave.records)
        self._spec = replace(spec, seed=stream(MIX, spec.seed, number), window=window)
        self._weave = weave
        self._number = number
        self._epoch = epoch
        self._ends = weave.ends[number]
        self._bounds: dict[int, Numbers] = {}
        self._runs: dict[int, list[tuple[Numbers, Numbers]]] = {}
        self._lanes: dict[int, tuple[int, Lane | _FullLane]] = {}

    def take(self, lane: int, position: int, count: int) -> Places:
        """Return the next places of a lane, from one of its positions in this epoch on."""
        out = np.empty(count, np.uint64)
        position += self._epoch * int(self._ends[lane])
        turn, done = self._pass_of(lane, position), 0
        while done < count:
            low, high = int(self._bound(turn)[lane]), int(self._bound(turn + 1)[lane])
            part = out[done : done + high - position]
            if len(part):
                self._lane(turn, lane).take(position - low, part)
                part += np.uint64(self._part.first_block(turn)) << _ROW_BITS
            done += len(part)
            position += len(part)
            turn += 1
        return out

    def count_from(self, lanes: Numbers, begins: Numbers, counts: Counts) -> None:
        """Add to `counts`, per block, what is left of the epoch, from positions of lanes on."""
        part, before = self._part, self._epoch * self._ends[lanes]
        turns, cut_short = part.within(self._epoch), (self._epoch + 1) * part.count // part.layout.records
        begun, untouched = turns.start, turns.stop
        if len(lanes) == len(self._ends):  # then it is plain which passes are left as a whole: a small dataset has many
            done = self._epoch * part.count + int(begins.sum())
            begun, untouched = done // part.layout.records, -(-done // part.layout.records)
        begins, ends = begins + before, self._ends[lanes] + before
        sizes = np.diff(part.layout.first).astype(np.int32)
        for turn in range(begun, turns.stop):
            first = part.first_block(turn)
            view = counts[first : first + part.blocks]
            if untouched <= turn < cut_short:
                view += sizes
                continue
            low, high = self._bound(turn)[lanes], self._bound(turn + 1)[lanes]
            begin, end = np.clip(begins, low, high) - low, np.clip(ends, low, high) - low
            whole = (begin == 0) & (end == high - low)
            self._count_whole(turn, lanes[whole], view)
            after = np.zeros_like(view)
            cut = np.flatnonzero(~whole & (begin < end))
            for lane, start, stop in zip(lanes[cut].tolist(), begin[cut].tolist(), end[cut].tolist(), strict=True):
                made = self._lane(turn, lane)
                assert isinstance(made, Lane), "a full order returns to any block at any time"
                add_covered(part.layout.first, *made.count_from(start, view), view)
                add_covered(part.layout.first, *made.count_from(stop, after), after)
            view -= after
            self.forget()

    def forget(self) -> None:
        """Let go of what belongs to passes that all lanes have left."""
        oldest = min((turn for turn, _ in self._lanes.values()), default=0)
        for held in (self._bounds, self._runs):
            for turn in [turn for turn in held if turn < oldest]:
                del held[turn]

    def _count_whole(self, turn: int, lanes: Numbers, counts: Counts) -> None:
        if not len(lanes):
            return
        runs = [self._cut(turn)[lane] for lane in lanes.tolist()]
        starts, lengths = (np.concatenate(parts) for parts in zip(*runs, strict=True))
        add_covered(self._part.layout.first, starts, lengths, counts)

    def _pass_of(self, lane: int, position: int) -> int:
        share = max(1, int(self._ends[lane]) * self._part.layout.records)
        turn = position * self._part.count // share
        while position < self._bound(turn)[lane]:
            turn -= 1
        while position >= self._bound(turn + 1)[lane]:
            turn += 1
        return turn

    def _bound(self, turn: int) -> Numbers:
        """Return where a pass begins in each lane."""
        found = self._bounds.get(turn)
        if found is None:
            epochs, rest = divmod(turn * self._part.layout.records, self._part.count)
            found = self._bounds[turn] = epochs * self._ends + self._weave.first(self._number, rest)
        return found

    def _cut(self, turn: int) -> list[tuple[Numbers, Numbers]]:
        """Return the pieces of a pass in each lane."""
        found = self._runs.get(turn)
        if found is None:
            lengths = self._bound(turn + 1) - self._bound(turn)
            found = self._runs[turn] = cut_runs(self._spec, self._part.layout, lengths)
        return found

    def _lane(self, turn: int, lane: int) -> Lane | _FullLane:
        held, made = self._lanes.get(lane, (-1, None))
        if made is None or held != turn:
            if self._spec.mode == "window":
                made = Lane(self._spec, self._part.layout, lane, turn, self._cut(turn)[lane])
            else:
                begin = int((self._bound(turn + 1) - self._bound(turn))[:lane].sum())
                made = _FullLane(self._part.layout, pass_key(self._spec, turn), begin)
            self._lanes[lane] = turn, made
        return made


@dataclass(frozen=True, slots=True)
class _FullLane:
    """Take a run of a permutation of all records."""

    layout: Layout
    key: int
    begin: int

    def take(self, position: int, out: Places) -> None:
        """Fill `out` with the lane's places from `position` on."""
        positions = np.arange(self.begin + position, self.begin + position + len(out), dtype=np.uint64)
        out[:] = self.layout.places(feistel(positions, self.layout.records, self.key))


class MixNatural:
    """Say where the records of an epoch lie that mixes datasets, each in the order as written.

    Args:
        layout: Where the records lie.
        epoch: Which epoch, from 0.
    """

    def __init__(self, layout: MixLayout, epoch: int) -> None:
        self._layout = layout
        self._epoch = epoch
        self._weave = layout.weave(1)

    def records(self, positions: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return of each position the dataset, the pass, and the record's number in the dataset."""
        before = self._weave.before(positions, np.array(0))
        owner = (self._weave.before(positions + 1, np.array(0)) - before).argmax(axis=0)
        parts = self._layout.parts
        counts, records = (
            np.array(values)[owner]
            for values in ([part.count for part in parts], [part.layout.records for part in parts])
        )
        number = self._epoch * counts + np.take_along_axis(before, owner[None], axis=0)[0]
        return owner, number // records, number % records

    def places(self, positions: Numbers) -> Places:
        """Return the places at positions."""
        owner, turns, numbers = self.records(positions)
        out = np.empty(len(positions), np.uint64)
        for sequence, part in enumerate(self._layout.parts):
            at = np.flatnonzero(owner == sequence)
            blocks = part.base + turns[at] % part.passes * part.blocks
            out[at] = part.layout.places(numbers[at]) + (blocks.astype(np.uint64) << _ROW_BITS)
        return out
